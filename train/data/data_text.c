/* SPDX-License-Identifier: Apache-2.0
 *
 * data_text.c - plain text for language models: text:PATH[,by=word|byte][,vocab=N].
 *
 * By word: words are separated by white space, and every line ends with the word <eos>.
 * The vocabulary is that of the training text. Other words in the test texts become
 * <unk> if the training text has it, and are an error if not. With vocab=N the
 * vocabulary is the N - 1 most frequent words and <unk>. By byte: the tokens are the
 * 256 bytes, including line ends.
 *
 * PATH is a directory that holds train.txt, test.txt and valid.txt, or NAME.train.txt
 * and so on, each possibly with .gz. One of the latter two may be missing; then the
 * other serves for both. Or PATH is one file: its first 90 % are to train with, and 5 %
 * each to validate and to test with. A sample is a row of T tokens, and its labels are
 * the tokens that follow each of them:
 *
 *     tokens    0 1 2 ... T-1 | T T+1 ...
 *     sample 0  0 1 2 ... T-1          labels  1 2 ... T-1 T
 *     sample 1                  T T+1 ...
 */
#define _GNU_SOURCE
#include "data/bytes.h"
#include "data/data.h"
#include "data/words.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* One file by word has <unk> for what only its end has, so some words must be rare; as
 * many words as Penn Treebank has are usual. */
enum { FILE_CAP = GWT_PATH_CAP + 300, VOCAB_OF_FILE = 10000 };

/* What a data set is made from while it is loaded. */
typedef struct reader {
    char directory[GWT_PATH_CAP]; /* or the one file */
    int by_byte;
    uint64_t vocab; /* 0: all words */
    gwt_words words;
    gwt_bytes train; /* the vocabulary's words lie in it */
} reader;

/* ---- finding the files --------------------------------------------------------- */

/* How well a file's name matches "train" etc.: 0 not at all, 1 NAME.train.txt, 2
 * train.txt; ".gz" may follow. */
static int fit(const char *name, const char *part)
{
    char want[32];
    size_t n = strlen(name), w = (size_t)snprintf(want, sizeof want, "%s.txt", part);

    if (n > 3 && strcmp(name + n - 3, ".gz") == 0)
        n -= 3;
    if (n < w || strncmp(name + n - w, want, w) != 0)
        return 0;
    return n == w ? 2 : name[n - w - 1] == '.';
}

/* Sets path to the file for that part; "" if there is none. Of names that match equally
 * well, the shortest wins, so a plain file is preferred to a gzipped one. */
static gw_status find_part(const reader *r, const char *part, char path[FILE_CAP])
{
    DIR *dir = opendir(r->directory);
    char best[256] = "", rival[256] = "";

    if (dir == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot read the directory %s: %s", r->directory,
                       strerror(errno));
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        int mine = fit(e->d_name, part), held = fit(best, part);
        size_t len = strlen(e->d_name);
        if (mine == 0 || mine < held || len >= sizeof best)
            continue;
        size_t shared = len < strlen(best) ? len : strlen(best);
        int same = strncmp(best, e->d_name, shared) == 0;
        snprintf(rival, sizeof rival, "%s", mine == held && !same ? best : "");
        if (mine > held || !same || len < strlen(best))
            snprintf(best, sizeof best, "%s", e->d_name);
    }
    closedir(dir);
    if (rival[0] != '\0')
        return gw_fail(GW_ERR_DATA, "%s has both %s and %s; rename one to %s.txt",
                       r->directory, best, rival, part);
    path[0] = '\0';
    if (best[0] != '\0')
        snprintf(path, FILE_CAP, "%s/%s", r->directory, best);
    return GW_OK;
}

static gw_status read_text(gwt_bytes *out, const char *path)
{
    GWT_TRY(gwt_bytes_load(out, path));
    if (out->len == 0)
        return gw_fail(GW_ERR_DATA, "%s is empty; it needs at least one line of text",
                       path);
    return GW_OK;
}

/* ---- words ----------------------------------------------------------------------- */

static int is_space(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Goes through a text word by word. */
typedef struct cursor {
    const char *at, *end;
    size_t line; /* of the last word, counted from 1 */
    int open;    /* whether a line has begun whose end mark has not come yet */
} cursor;

static const gwt_span eos = {"<eos>", 5}, unk = {"<unk>", 5};

/* The next word; 0 at the end. */
static int next_word(cursor *c, gwt_span *out)
{
    while (c->at < c->end && is_space((unsigned char)*c->at)) {
        c->line += !c->open;
        c->open = 1;
        if (*c->at++ == '\n') {
            c->open = 0;
            *out = eos;
            return 1;
        }
    }
    if (c->at == c->end) {
        int unfinished = c->open;
        c->open = 0;
        *out = eos;
        return unfinished;
    }
    c->line += !c->open;
    c->open = 1;
    out->at = c->at;
    while (c->at < c->end && !is_space((unsigned char)*c->at))
        c->at++;
    out->len = (size_t)(c->at - out->at);
    return 1;
}

static cursor cursor_of(const gwt_bytes *bytes)
{
    const char *at = (const char *)bytes->at;

    return (cursor){.at = at, .end = at + bytes->len};
}

/* The number of a word. A new word of the training text gets a new number. */
static gw_status number_of(reader *r, gwt_span word, int learn, const char *path,
                           size_t line, uint32_t *out)
{
    if (learn)
        return gwt_words_add(&r->words, word, out);
    *out = gwt_words_find(&r->words, word);
    if (*out == UINT32_MAX)
        *out = gwt_words_find(&r->words, unk);
    if (*out == UINT32_MAX)
        return gw_fail(GW_ERR_DATA,
                       "%s, line %zu: '%.*s' does not occur in the training text, "
                       "which has no <unk> to replace it",
                       path, line, word.len < 60 ? (int)word.len : 60, word.at);
    return GW_OK;
}

static gw_status encode_words(reader *r, gwt_split *split, const gwt_bytes *bytes,
                              int learn, const char *path)
{
    cursor count = cursor_of(bytes), c = count;
    gwt_span word;
    size_t n = 0;

    while (next_word(&count, &word))
        n++;
    split->token = gwt_calloc(n, sizeof *split->token, "tokens");
    if (split->token == NULL)
        return GW_ERR_NOMEM;
    for (; next_word(&c, &word); split->tokens++)
        GWT_TRY(number_of(r, word, learn, path, c.line, &split->token[split->tokens]));
    if (learn && r->vocab != 0)
        return gwt_words_keep(&r->words, split->token, split->tokens, (size_t)r->vocab,
                              unk);
    return GW_OK;
}

static gw_status encode_bytes(gwt_split *split, const gwt_bytes *bytes)
{
    split->token = gwt_calloc(bytes->len, sizeof *split->token, "tokens");
    if (split->token == NULL)
        return GW_ERR_NOMEM;
    split->tokens = bytes->len;
    for (size_t i = 0; i < bytes->len; i++)
        split->token[i] = bytes->at[i];
    return GW_OK;
}

static gw_status encode(reader *r, gwt_split *split, const gwt_bytes *bytes, int learn,
                        const char *path)
{
    if (r->by_byte)
        return encode_bytes(split, bytes);
    return encode_words(r, split, bytes, learn, path);
}

/* ---- loading ----------------------------------------------------------------------
 */

static gw_status load_train(reader *r, gwt_data *out)
{
    char path[FILE_CAP];

    GWT_TRY(find_part(r, "train", path));
    if (path[0] == '\0')
        return gw_fail(GW_ERR_SYSTEM,
                       "%s has no training text, train.txt[.gz] or NAME.train.txt[.gz]",
                       r->directory);
    GWT_TRY(read_text(&r->train, path));
    return encode(r, &out->train, &r->train, 1, path);
}

/* Leaves the split empty if there is no such file. */
static gw_status load_part(reader *r, gwt_split *split, const char *part)
{
    char path[FILE_CAP];
    gwt_bytes bytes;
    gw_status st;

    GWT_TRY(find_part(r, part, path));
    if (path[0] == '\0')
        return GW_OK;
    st = read_text(&bytes, path);
    if (st == GW_OK)
        st = encode(r, split, &bytes, 0, path);
    gwt_bytes_free(&bytes);
    return st;
}

static gw_status load_directory(reader *r, gwt_data *out)
{
    GWT_TRY(load_train(r, out));
    GWT_TRY(load_part(r, &out->valid, "valid"));
    GWT_TRY(load_part(r, &out->test, "test"));
    if (out->test.tokens == 0) {
        out->test = out->valid;
        out->valid = (gwt_split){0};
    }
    if (out->test.tokens == 0)
        return gw_fail(GW_ERR_SYSTEM,
                       "%s has no test text, test.txt[.gz] or valid.txt[.gz]",
                       r->directory);
    return GW_OK;
}

/* Where the text is cut after that share of it: by word, at the end of a word. */
static size_t cut_after(const reader *r, size_t percent)
{
    size_t at = r->train.len / 100 * percent + r->train.len % 100 * percent / 100;

    while (!r->by_byte && at < r->train.len && !is_space(r->train.at[at]))
        at++;
    return at;
}

static gw_status load_piece(reader *r, gwt_split *split, size_t from, size_t to)
{
    gwt_bytes piece = {.at = r->train.at + from, .len = to - from};

    if (from == to)
        return gw_fail(
            GW_ERR_DATA,
            "%s has %zu bytes, which are too few to keep 5 %% for validation "
            "and 5 %% for the test",
            r->directory, r->train.len);
    return encode(r, split, &piece, from == 0, r->directory);
}

static gw_status load_file(reader *r, gwt_data *out)
{
    if (!r->by_byte && r->vocab == 0)
        r->vocab = VOCAB_OF_FILE;
    GWT_TRY(read_text(&r->train, r->directory));
    size_t first = cut_after(r, 90), second = cut_after(r, 95);
    GWT_TRY(load_piece(r, &out->train, 0, first));
    GWT_TRY(load_piece(r, &out->valid, first, second));
    GWT_TRY(load_piece(r, &out->test, second, r->train.len));
    snprintf(out->note, sizeof out->note,
             "%.120s is one text: its first 90 %% are used for training, the next 5 %% "
             "for validation and the last 5 %% for the test",
             r->directory);
    return GW_OK;
}

static gw_status load_all(reader *r, gwt_data *out)
{
    struct stat info;
    int is_file = stat(r->directory, &info) == 0 && S_ISREG(info.st_mode);

    GWT_TRY(gwt_words_init(&r->words));
    GWT_TRY(is_file ? load_file(r, out) : load_directory(r, out));
    out->classes = r->by_byte ? 256 : r->words.count;
    return GW_OK;
}

/* ---- options --------------------------------------------------------------------- */

/* Where the options begin: at the first comma that one of their names follows. */
static size_t path_len(const char *rest)
{
    const char *by = strstr(rest, ",by="), *vocab = strstr(rest, ",vocab=");
    size_t len = strlen(rest);

    if (by != NULL)
        len = (size_t)(by - rest);
    if (vocab != NULL && (size_t)(vocab - rest) < len)
        len = (size_t)(vocab - rest);
    return len;
}

gw_status gwt_text_path(const char *rest, char *path)
{
    size_t len = rest == NULL ? 0 : path_len(rest);

    if (len == 0 || len >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "data set text needs a file or a directory: "
                                   "text:FILE, text:DIR or text:FILE,by=byte");
    snprintf(path, GWT_PATH_CAP, "%.*s", (int)len, rest);
    return GW_OK;
}

static gw_status parse_option(reader *r, const char *option)
{
    if (strncmp(option, "vocab=", 6) == 0)
        return gwt_parse_count("vocab", option + 6, 3, GWT_WORDS_MAX, &r->vocab);
    r->by_byte = strcmp(option, "by=byte") == 0;
    if (!r->by_byte && strcmp(option, "by=word") != 0)
        return gw_fail(GW_ERR_ARG,
                       "data set text: unknown option '%s'; expected by=word, by=byte "
                       "or vocab=N",
                       option);
    return GW_OK;
}

/* PATH[,by=word|byte][,vocab=N] */
static gw_status parse(reader *r, const char *rest)
{
    char options[256], *save = NULL;

    GWT_TRY(gwt_text_path(rest, r->directory));
    snprintf(options, sizeof options, "%s", rest + path_len(rest));
    for (char *o = strtok_r(options, ",", &save); o != NULL;
         o = strtok_r(NULL, ",", &save))
        GWT_TRY(parse_option(r, o));
    if (r->by_byte && r->vocab != 0)
        return gw_fail(GW_ERR_ARG, "data set text: vocab=N needs by=word; by=byte "
                                   "always has the 256 bytes");
    return GW_OK;
}

gw_status gwt_text_load(gwt_data *out, const char *rest, const char *data_dir)
{
    reader r = {0};
    gw_status st;

    (void)data_dir;
    GWT_TRY(parse(&r, rest));
    out->text = 1;
    st = load_all(&r, out);
    gwt_words_free(&r.words);
    gwt_bytes_free(&r.train);
    return st;
}

/* ---- samples -----------------------------------------------------------------------
 */

static gw_status cut(gwt_split *split, size_t sequence, const char *what)
{
    if (split->tokens < sequence + 1)
        return gw_fail(GW_ERR_DATA,
                       "the %s text has %zu token%s, but one row of --sequence %zu "
                       "needs %zu; make --sequence smaller",
                       what, split->tokens, split->tokens == 1 ? "" : "s", sequence,
                       sequence + 1);
    split->count = (split->tokens - 1) / sequence;
    return GW_OK;
}

gw_status gwt_text_cut(gwt_data *data, size_t sequence)
{
    data->shape = (gwt_shape){sequence, 1, 1};
    GWT_TRY(cut(&data->train, sequence, "training"));
    if (data->valid.tokens > 0)
        GWT_TRY(cut(&data->valid, sequence, "validation"));
    return cut(&data->test, sequence, "test");
}

void gwt_text_batch(const gwt_data *data, const gwt_split *split, const uint32_t *pick,
                    size_t first, size_t count, float *x, uint32_t *y)
{
    size_t T = data->shape.channels;

    for (size_t i = 0; i < count; i++) {
        size_t at = pick != NULL ? pick[first + i] : first + i;
        const uint32_t *token = split->token + at * T;
        for (size_t t = 0; t < T; t++) {
            x[i * T + t] = (float)token[t];
            y[i * T + t] = token[t + 1];
        }
    }
}
