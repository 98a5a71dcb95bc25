# SPDX-License-Identifier: Apache-2.0
#
# test_cli_metrics.py - --metrics hands out OpenMetrics text, at a port and in a file: the
# format is read by the parser of Prometheus's own client where that is installed, and by a few
# rules here; figures are those of the run; whoever asks strangely, or never, disturbs nobody.
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

from support_checks import GRADWIRE, check, expect_error, finish, succeed

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
except ImportError:
    parse = None

SMALL = ["--model", "softmax", "--data", "synthetic:train=400,test=50,dim=20,classes=4", "--batch", "8", "--workers", "2"]
TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def figures(text):
    """Samples by name, after a look at the form."""
    check(text.endswith("\n# EOF\n") and text.count("# EOF") == 1, f"the end: {text[-40:]!r}")
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r'(\w+)(\{.*\})? (\S+)', line).groups()
        family = re.sub(r"_(total|info)$", "", name)
        kind = kinds.get(family)
        check(name == family + {"counter": "_total", "info": "_info", "gauge": ""}[kind], f"{name} is a {kind}")
        check(name not in found, f"{name} twice")
        found[name] = (labels or "", float(value))
    if parse is not None:
        families = list(parse(text))
        check({s.name for f in families for s in f.samples} == set(found), "the client's parser sees the same samples")
    return found


def number(found, name):
    return found[f"gradwire_{name}"][1]


class Run:
    """A run that goes on until it is stopped."""

    def __init__(self, tmp, name, *args):
        self.out = f"{tmp}/{name}"
        self.p = subprocess.Popen([GRADWIRE, "train", *SMALL, "--epochs", "1000000", "--log-every", "50", "--out",
                                   self.out, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.note = self.p.stderr.readline()
        self.where = re.match(r"note: metrics are in (.*)$", self.note)
        check(self.where, f"where metrics are: {self.note!r}")
        self.where = self.where[1]
        if self.where.startswith("http://"):
            self.host, port = re.fullmatch(r"http://(?:\[(?=.*\]))?([\w.:]*?)\]?:(\d+)/metrics", self.where).groups()
            self.port = int(port)

    def ask(self, method="GET", path="/metrics"):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read().decode()

    def raw(self, request):
        """What comes back for these bytes, up to the end of the connection."""
        with socket.create_connection((self.host, self.port), timeout=30) as s:
            s.sendall(request)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while part := s.recv(4096):
                got += part
        return got

    def stop(self, code=130):
        if code == 130:
            self.p.send_signal(signal.SIGINT)
        rest = self.p.communicate(timeout=60)[1]
        check(self.p.returncode == code, f"{self.out}: exit {self.p.returncode}, {rest[-300:]!r}")
        return rest

    def closed(self):
        try:
            socket.create_connection((self.host, self.port), timeout=5).close()
        except ConnectionRefusedError:
            return True
        return False


def scrapes(tmp):
    run = Run(tmp, 'odd "name\\ä', "--metrics", "0", "--sync", "topk:0.1", "--momentum", "0")
    check(run.host == "127.0.0.1", f"another address than this machine's: {run.where}")
    answer, text = run.ask()
    check((answer.status, answer.getheader("Content-Type")) == (200, TYPE), f"{answer.status} {answer.headers}")
    first = figures(text)
    labels = first["gradwire_run_info"][0]
    for want in ('model="softmax"', 'workers="2"', 'sync="topk:', 'odd \\"name\\\\ä"'):
        check(want in labels, f"no {want} in {labels}")
    while number(figures(run.ask()[1]), "steps_total") < number(first, "steps_total") + 200:
        pass
    later = figures(run.ask(path="/")[1])
    for name, (_, value) in first.items():
        check(not name.endswith("_total") or later[name][1] >= value, f"{name} goes back")
    for name in ("loss", "residual_norm", "learning_rate", "test_accuracy", "sent_bytes_total"):
        check(number(later, name) > 0, f"{name}: {later.get('gradwire_' + name)}")
    check(abs(number(later, "last_step_timestamp_seconds") - time.time()) < 60, "the clock")
    check(number(later, "samples_total") == 16 * number(later, "steps_total"), "samples of all workers")
    check("gradwire_tokens_total" not in later and "gradwire_drift" not in later, "figures that do not apply")
    strangers(run)
    silent = socket.create_connection((run.host, run.port))
    check(run.ask()[0].status == 200, "one who says nothing keeps others waiting")
    again = socket.create_connection((run.host, run.port))
    run.stop()
    check(run.closed(), "the port is open after the run")
    silent.close()
    again.close()


def strangers(run):
    for method, path, status in (("HEAD", "/metrics", 200), ("GET", "/metrics?x=1", 200), ("GET", "/other", 404),
                                 ("POST", "/metrics", 405), ("GET", "/metricsx", 404)):
        answer, text = run.ask(method, path)
        check(answer.status == status, f"{method} {path}: {answer.status}")
        check(method != "HEAD" or (text == "" and int(answer.getheader("Content-Length")) > 1000), "HEAD")
    for request, status in ((b"GET /metrics HTTP/1.0\r\n\r\n", b" 200 "), (b"hello\r\n\r\n", b" 400 "),
                            (b"GET /metrics\r\n\r\n", b" 400 "), (b"GET metrics HTTP/1.1\r\n\r\n", b" 400 "),
                            (b"GET / HTTP/1.1\r\nX: " + 9000 * b"x" + b"\r\n\r\n", b" 431 "), (b"GET /", b""), (b"", b"")):
        got = run.raw(request)
        check(got.startswith(b"HTTP/1.1" + status) if status else got == b"", f"{request[:30]!r}: {got[:60]!r}")


def ends(tmp):
    """The port is closed whatever ends the run, and threads do as processes do."""
    run = Run(tmp, "threads", "--metrics", "127.0.0.1:0", "--spawn", "threads")
    check(run.ask()[0].status == 200, "threads")
    run.stop()
    check(run.closed(), "the port is open after threads")
    run = Run(tmp, "killed", "--metrics", "localhost:0")
    check(run.ask()[0].status == 200, "localhost")
    with open(f"/proc/{run.p.pid}/task/{run.p.pid}/children") as f:
        os.kill(int(f.read().split()[1]), signal.SIGKILL)
    check("worker" in run.stop(code=1), "a killed worker")
    check(run.closed(), "the port is open after a failure")


def files(tmp):
    path = f"{tmp}/node/gradwire.prom"
    os.mkdir(f"{tmp}/node")
    run = Run(tmp, "filed", "--metrics", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path) as f:
        check(number(figures(f.read()), "steps_total") == 0, "a file at the beginning")
    run.stop()
    check(os.listdir(f"{tmp}/node") == ["gradwire.prom"], f"files left: {os.listdir(f'{tmp}/node')}")
    with open(path) as f, open(f"{tmp}/filed/summary.json") as g:
        found, summary = figures(f.read()), json.load(g)
    for name, key in (("steps_total", "steps"), ("sent_bytes_total", "bytes_sent"), ("sent_messages_total", "messages_sent"),
                      ("received_bytes_total", "bytes_received"), ("test_accuracy", "test_accuracy"),
                      ("test_loss", "test_loss"), ("compute_seconds_total", "compute_s")):
        check(abs(number(found, name) - summary[key]) <= 1e-8 * abs(summary[key]), f"{name}: {number(found, name)}, {summary[key]}")
    check(found["gradwire_test_loss"][0] == '{set="test"}', "the set")


def texts(tmp):
    with open(f"{tmp}/book.txt", "w") as f:
        f.write("the rest of it is the end of all\n" * 400)
    succeed("train", "--model", "lstm:8", "--data", f"text:{tmp}/book.txt", "--batch", 2, "--workers", 2, "--steps", 5,
            "--sequence", 6, "--sync", "local:2", "--metrics", f"{tmp}/text.prom", "--out", f"{tmp}/text")
    with open(f"{tmp}/text.prom") as f:
        found = figures(f.read())
    check(number(found, "tokens_total") == 5 * 2 * 2 * 6, f"tokens: {number(found, 'tokens_total')}")
    check(number(found, "perplexity") > 1 and number(found, "drift") >= 0, "a text")


def errors(tmp):
    succeed("train", *SMALL, "--steps", 2, "--out", f"{tmp}/kept")
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    args = ["train", *SMALL, "--steps", 2, "--quiet"]
    expect_error(1, [f"127.0.0.1:{port}", "in use"], *args, "--metrics", port, "--out", f"{tmp}/kept", "--force")
    check(os.path.exists(f"{tmp}/kept/summary.json"), "a port in use cost the old run")
    taken.close()
    expect_error(2, ["70000", "65535"], *args, "--metrics", 70000)
    expect_error(2, ["host is missing", "0.0.0.0"], *args, "--metrics", ":9100")
    expect_error(2, ["a file, a port"], *args, "--metrics", "")
    expect_error(1, ["nowhere"], *args, "--metrics", f"{tmp}/nowhere/x.prom", "--out", f"{tmp}/a")
    expect_error(1, ["cannot listen", "nohost.invalid"], *args, "--metrics", "nohost.invalid:9100", "--out", f"{tmp}/b")


with tempfile.TemporaryDirectory() as folder:
    scrapes(folder)
    ends(folder)
    files(folder)
    texts(folder)
    errors(folder)
finish()
