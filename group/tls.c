/* SPDX-License-Identifier: Apache-2.0
 *
 * tls.c - TLS 1.3 with a pre-shared key, by OpenSSL.
 *
 * There are no certificates. The key is the resumption secret of a session that both
 * sides have in advance; the handshake still makes fresh Diffie-Hellman keys, so that
 * a recorded connection stays secret even if the job's key becomes known later. */
#define _GNU_SOURCE
#include "tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECRET_LEN = 32, LEAST_KEY = 16, LONGEST_KEY = 1024, LONGEST_JOB = 64 };

/* What one record of TLS can hold, and what it takes on its way at most. */
enum { RECORD = 16384, RECORD_MOST = RECORD + 256 };

/* Several records go through one call of the system: calls cost as much as AES does. */
enum { OUT_CAP = 8 * RECORD_MOST, IN_CAP = 8 * RECORD_MOST };

static const char IDENTITY[] = "gradwire";

struct gwg_tls {
    SSL_CTX *ctx;
    BIO_METHOD *socket; /* moves bytes without raising SIGPIPE */
    unsigned char secret[SECRET_LEN];
};

struct gwg_conn {
    SSL *ssl;
    int fd;
    short events; /* what the last call could not go on without */
    bool over;    /* the handshake is */
    bool plain;
    size_t out_len, in_at, in_len;
    unsigned char stage[RECORD]; /* parts that go into one record */
    unsigned char out[OUT_CAP];  /* encrypted, and not sent yet */
    unsigned char in[IN_CAP];    /* received, and not decrypted yet: in_at to in_len */
};

/* ---- the key ----------------------------------------------------------------- */

static gw_status fail_ssl(gw_status status, const char *doing)
{
    char why[160] = "unknown reason";
    unsigned long code = ERR_get_error();

    if (code != 0)
        ERR_error_string_n(code, why, sizeof why);
    ERR_clear_error();
    return gw_fail(status, "cannot %s: OpenSSL: %s", doing, why);
}

/* secret = HKDF(key, salt "gradwire", info job) */
static gw_status derive(gwg_tls *tls, const char *job, const char *key)
{
    EVP_PKEY_CTX *kdf = EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, NULL);
    size_t len = sizeof tls->secret;
    bool good = kdf != NULL && EVP_PKEY_derive_init(kdf) > 0 &&
                EVP_PKEY_CTX_set_hkdf_md(kdf, EVP_sha256()) > 0 &&
                EVP_PKEY_CTX_set1_hkdf_salt(kdf, (const unsigned char *)IDENTITY,
                                            (int)strlen(IDENTITY)) > 0 &&
                EVP_PKEY_CTX_set1_hkdf_key(kdf, (const unsigned char *)key,
                                           (int)strlen(key)) > 0 &&
                EVP_PKEY_CTX_add1_hkdf_info(kdf, (const unsigned char *)job,
                                            (int)strlen(job)) > 0 &&
                EVP_PKEY_derive(kdf, tls->secret, &len) > 0;

    EVP_PKEY_CTX_free(kdf);
    return good ? GW_OK : fail_ssl(GW_ERR_SYSTEM, "derive the job's key");
}

/* The session that both sides have in advance. */
static SSL_SESSION *known_session(SSL *ssl)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    const gwg_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session != NULL && cipher != NULL &&
        SSL_SESSION_set1_master_key(session, tls->secret, sizeof tls->secret) > 0 &&
        SSL_SESSION_set_cipher(session, cipher) > 0 &&
        SSL_SESSION_set1_id_context(session, (const unsigned char *)IDENTITY,
                                    sizeof IDENTITY - 1) > 0 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) > 0)
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int offer_session(SSL *ssl, const EVP_MD *md, const unsigned char **id,
                         size_t *id_len, SSL_SESSION **session)
{
    (void)md;
    *id = (const unsigned char *)IDENTITY;
    *id_len = strlen(IDENTITY);
    *session = known_session(ssl);
    return *session != NULL;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t id_len,
                        SSL_SESSION **session)
{
    *session = NULL;
    if (id_len == strlen(IDENTITY) && memcmp(id, IDENTITY, id_len) == 0)
        *session = known_session(ssl);
    return 1;
}

static long after_syscall(ssize_t n)
{
    if (n > 0)
        return (long)n;
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0
                                                                                : -1;
}

/* Sends what waits. Returns -1 if the connection broke. */
static long send_out(gwg_conn *c)
{
    size_t sent = 0;
    long n = 1;

    while (sent < c->out_len && n > 0) {
        n = after_syscall(send(c->fd, c->out + sent, c->out_len - sent, MSG_NOSIGNAL));
        sent += n > 0 ? (size_t)n : 0;
    }
    c->out_len -= sent;
    if (sent > 0)
        memmove(c->out, c->out + sent, c->out_len);
    return n < 0 ? -1 : 0;
}

/* OpenSSL's own socket BIO writes in a way that raises SIGPIPE, and every record by
 * itself. */
static int bio_write(BIO *bio, const char *bytes, int len)
{
    gwg_conn *c = BIO_get_data(bio);
    size_t n = (size_t)len;

    BIO_clear_retry_flags(bio);
    if (n > sizeof c->out - c->out_len && send_out(c) < 0)
        return -1;
    if (n > sizeof c->out - c->out_len) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
    return len;
}

static int bio_read(BIO *bio, char *to, int len)
{
    gwg_conn *c = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (c->in_at == c->in_len) {
        long got = after_syscall(recv(c->fd, c->in, sizeof c->in, 0));
        if (got == 0)
            BIO_set_retry_read(bio);
        if (got <= 0)
            return -1;
        c->in_at = 0;
        c->in_len = (size_t)got;
    }
    size_t left = c->in_len - c->in_at, n = left < (size_t)len ? left : (size_t)len;
    memcpy(to, c->in + c->in_at, n);
    c->in_at += n;
    return (int)n;
}

/* A handshake goes on when its messages have left. */
static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    gwg_conn *c = BIO_get_data(bio);

    (void)number, (void)pointer;
    if (command != BIO_CTRL_FLUSH)
        return 0;
    BIO_clear_retry_flags(bio);
    if (send_out(c) < 0)
        return -1;
    if (c->out_len == 0)
        return 1;
    BIO_set_retry_write(bio);
    return -1;
}

static BIO_METHOD *socket_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

    if (m != NULL && BIO_meth_set_write(m, bio_write) > 0 &&
        BIO_meth_set_read(m, bio_read) > 0 && BIO_meth_set_ctrl(m, bio_control) > 0)
        return m;
    BIO_meth_free(m);
    return NULL;
}

static bool set_up(gwg_tls *tls)
{
    tls->ctx = SSL_CTX_new(TLS_method());
    tls->socket = socket_method();
    if (tls->ctx == NULL || tls->socket == NULL ||
        SSL_CTX_set_min_proto_version(tls->ctx, TLS1_3_VERSION) <= 0 ||
        SSL_CTX_set_ciphersuites(tls->ctx, "TLS_AES_128_GCM_SHA256") <= 0 ||
        SSL_CTX_set_num_tickets(tls->ctx, 0) <= 0 ||
        SSL_CTX_set_session_id_context(tls->ctx, (const unsigned char *)IDENTITY,
                                       sizeof IDENTITY - 1) <= 0)
        return false;
    SSL_CTX_set_app_data(tls->ctx, tls);
    SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_psk_use_session_callback(tls->ctx, offer_session);
    SSL_CTX_set_psk_find_session_callback(tls->ctx, find_session);
    /* A server that finds no session has no certificate to fall back to. */
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
    return true;
}

gw_status gwg_tls_new(gwg_tls **out, const char *job, const char *key)
{
    gwg_tls *tls;
    gw_status st;

    *out = NULL;
    if (job == NULL || job[0] == '\0' || strlen(job) > LONGEST_JOB)
        return gw_fail(GW_ERR_ARG, "the name of a job has 1 to %d bytes", LONGEST_JOB);
    if (key == NULL || strlen(key) < LEAST_KEY || strlen(key) > LONGEST_KEY)
        return gw_fail(GW_ERR_ARG,
                       "a job's key has %d to %d bytes; 'gradwire meet --new-key FILE' "
                       "makes one",
                       LEAST_KEY, LONGEST_KEY);
    tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a job's key");
    st = derive(tls, job, key);
    if (st == GW_OK && !set_up(tls))
        st = fail_ssl(GW_ERR_SYSTEM, "set up TLS");
    if (st != GW_OK) {
        gwg_tls_free(tls);
        return st;
    }
    *out = tls;
    return GW_OK;
}

void gwg_tls_free(gwg_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->socket);
    OPENSSL_cleanse(tls->secret, sizeof tls->secret);
    free(tls);
}

/* HMAC-SHA-256 by a key of its own: HMAC-SHA-256(secret, purpose). */
gw_status gwg_tls_mac(const gwg_tls *tls, const char *purpose, const void *bytes,
                      size_t len, unsigned char mac[GWG_MAC_LEN])
{
    unsigned char own[GWG_MAC_LEN];
    bool good =
        HMAC(EVP_sha256(), tls->secret, sizeof tls->secret,
             (const unsigned char *)purpose, strlen(purpose), own, NULL) != NULL &&
        HMAC(EVP_sha256(), own, sizeof own, bytes, len, mac, NULL) != NULL;

    OPENSSL_cleanse(own, sizeof own);
    return good ? GW_OK : fail_ssl(GW_ERR_SYSTEM, "make a code");
}

int gwg_tls_same(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

/* ---- one connection ------------------------------------------------------------ */

static bool make_ready(gwg_conn *c, gwg_tls *tls, gwg_side side)
{
    int flags = fcntl(c->fd, F_GETFL);

    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(c->fd, F_SETFD, FD_CLOEXEC) < 0)
        return false;
    c->ssl = SSL_new(tls->ctx);
    BIO *bio = BIO_new(tls->socket);
    if (c->ssl == NULL || bio == NULL) {
        BIO_free(bio);
        return false;
    }
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(c->ssl, bio, bio);
    SSL_set_mode(c->ssl, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (side == GWG_ANSWERS)
        SSL_set_accept_state(c->ssl);
    else
        SSL_set_connect_state(c->ssl);
    c->events = side == GWG_ANSWERS ? POLLIN : POLLOUT;
    return true;
}

gw_status gwg_conn_new(gwg_conn **out, gwg_tls *tls, int fd, gwg_side side)
{
    gwg_conn *c = calloc(1, sizeof *c);

    *out = NULL;
    if (c == NULL) {
        close(fd);
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a connection");
    }
    c->fd = fd;
    if (!make_ready(c, tls, side)) {
        gwg_conn_free(c);
        return fail_ssl(GW_ERR_SYSTEM, "begin a connection");
    }
    *out = c;
    return GW_OK;
}

static void release(void *ctx)
{
    gwg_conn *c = ctx;

    SSL_free(c->ssl);
    free(c);
}

void gwg_conn_free(gwg_conn *c)
{
    if (c == NULL)
        return;
    int fd = c->fd;
    release(c);
    close(fd);
}

/* What has come behind the last record is the beginning of the new handshake. */
gw_status gwg_conn_again(gwg_conn *c, gwg_tls *tls, gwg_side side)
{
    if (c->out_len > 0)
        return gw_fail(GW_ERR_PEER, "the other side does not read");
    SSL_free(c->ssl);
    c->ssl = NULL;
    c->over = false;
    return make_ready(c, tls, side) ? GW_OK
                                    : fail_ssl(GW_ERR_SYSTEM, "begin a connection");
}

int gwg_conn_detach(gwg_conn *c)
{
    int fd = c->fd;
    bool clean = c->out_len == 0 && c->in_at == c->in_len && SSL_pending(c->ssl) == 0;

    release(c);
    if (clean)
        return fd;
    close(fd);
    return -1;
}

/* What became of a call of OpenSSL's that did not succeed: 0, or -1 for good.
 * OpenSSL 3.0 takes a flush that must wait for the end: so it is when a socket is still
 * connecting, which takes a round trip. */
static long pause_or_end(gwg_conn *c, int result)
{
    int reason = SSL_get_error(c->ssl, result);

    if (reason == SSL_ERROR_SYSCALL && SSL_want_write(c->ssl) &&
        BIO_should_write(SSL_get_wbio(c->ssl)))
        reason = SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) {
        c->events = reason == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        return 0;
    }
    return -1;
}

gw_status gwg_conn_shake(gwg_conn *c)
{
    if (c->over)
        return GW_OK;
    ERR_clear_error();
    int result = SSL_do_handshake(c->ssl);
    if (result == 1) {
        /* A session that was not resumed would mean that no key was proven. */
        c->over = SSL_session_reused(c->ssl) == 1;
        c->events = POLLIN;
        return c->over ? GW_OK : gw_fail(GW_ERR_PEER, "no key was proven");
    }
    if (pause_or_end(c, result) == 0)
        return GW_PENDING;
    return gw_fail(GW_ERR_PEER, "the other side does not know the job's key");
}

short gwg_conn_events(const gwg_conn *c)
{
    if (!c->over)
        return c->events;
    return (short)(POLLIN | (c->out_len > 0 ? POLLOUT : 0));
}

int gwg_conn_fd(const gwg_conn *c)
{
    return c->fd;
}

/* ---- bytes ---------------------------------------------------------------------- */

/* What follows the last record may have come with it. */
static long read_plain(gwg_conn *c, void *buf, size_t len)
{
    size_t left = c->in_len - c->in_at, n = left < len ? left : len;

    if (left == 0)
        return after_syscall(recv(c->fd, buf, len, 0));
    memcpy(buf, c->in + c->in_at, n);
    c->in_at += n;
    return (long)n;
}

long gwg_conn_read(gwg_conn *c, void *buf, size_t len)
{
    size_t n = 0;

    if (c->plain)
        return read_plain(c, buf, len);
    int result = SSL_read_ex(c->ssl, buf, len, &n);
    return result == 1 ? (long)n : pause_or_end(c, result);
}

/* Where a write has got to in its parts. */
typedef struct place {
    const struct iovec *part;
    int count;
    size_t at;
} place;

/* Takes what goes into the next record: a piece of a long part as it is, or several
 * short ones gathered. Returns its length. */
static size_t next_record(gwg_conn *c, place *p, const void **from)
{
    size_t len = 0;

    while (p->count > 0 && len < RECORD) {
        size_t left = p->part->iov_len - p->at;
        size_t n = left < RECORD - len ? left : RECORD - len;
        const unsigned char *bytes = (const unsigned char *)p->part->iov_base + p->at;
        p->at += n;
        if (n == RECORD) {
            *from = bytes;
            return n;
        }
        if (n > 0)
            memcpy(c->stage + len, bytes, n);
        len += n;
        if (p->at == p->part->iov_len)
            *p = (place){p->part + 1, p->count - 1, 0};
    }
    *from = c->stage;
    return len;
}

static long write_plain(gwg_conn *c, const struct iovec *parts, int count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                             .msg_iovlen = (size_t)count};

    return count > 0 ? after_syscall(sendmsg(c->fd, &message, MSG_NOSIGNAL)) : 0;
}

long gwg_conn_write(gwg_conn *c, const struct iovec *parts, int count)
{
    if (c->plain)
        return write_plain(c, parts, count);
    place p = {parts, count, 0};
    const void *from;
    size_t len, n;
    long taken = 0;

    if (send_out(c) < 0)
        return -1;
    /* There is room for each record, so that OpenSSL never has to be asked again. */
    while (sizeof c->out - c->out_len >= RECORD_MOST &&
           (len = next_record(c, &p, &from)) > 0) {
        if (SSL_write_ex(c->ssl, from, len, &n) != 1 || n != len) {
            ERR_clear_error();
            return -1;
        }
        taken += (long)len;
        if (sizeof c->out - c->out_len < RECORD_MOST && send_out(c) < 0)
            return -1;
    }
    return send_out(c) < 0 ? -1 : taken;
}

size_t gwg_conn_unread(const gwg_conn *c)
{
    size_t left = c->in_len - c->in_at;

    if (c->plain)
        return left;
    /* Between two records, OpenSSL leaves what it has not begun to read. */
    const unsigned char *head = c->in + c->in_at;
    bool whole = left >= 5 && left - 5 >= (size_t)(head[3] << 8 | head[4]);
    return (size_t)SSL_pending(c->ssl) + (whole ? left : 0);
}

size_t gwg_conn_unsent(const gwg_conn *c)
{
    return c->out_len;
}

/* ---- as a stream ------------------------------------------------------------------
 */

static long stream_read(void *ctx, void *buf, size_t len)
{
    return gwg_conn_read(ctx, buf, len);
}

static long stream_write(void *ctx, const struct iovec *parts, int count)
{
    return gwg_conn_write(ctx, parts, count);
}

static size_t stream_unread(void *ctx)
{
    return gwg_conn_unread(ctx);
}

static size_t stream_unsent(void *ctx)
{
    return gwg_conn_unsent(ctx);
}

gw_stream gwg_conn_stream(gwg_conn *c, int plain)
{
    c->plain = plain != 0;
    return (gw_stream){
        .fd = c->fd,
        .ctx = c,
        .read = stream_read,
        .write = stream_write,
        .unread = stream_unread,
        .unsent = stream_unsent,
        .release = release,
    };
}
