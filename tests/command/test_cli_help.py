# SPDX-License-Identifier: Apache-2.0
#
# test_cli_help.py - help and version by their usual names, for every command; what a
# spec means; manual pages and shell completion made from the tables of flags. What is not
# installed here (mandoc, zsh, fish) is named and left out.
import os
import pty
import re
import shutil
import subprocess
import tempfile

from support_checks import GRADWIRE, check, expect_error, finish, run, succeed

COMMANDS = re.findall(r"^  ([a-z]+) +\S", run("help").stdout.split("Commands")[1].split("Examples")[0], re.M)
# The date of a manual page comes from it, as in all reproducible builds.
DATED = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}


def usual_names():
    check(len(COMMANDS) > 8 and "train" in COMMANDS and "help" in COMMANDS, f"commands: {COMMANDS}")
    check(succeed("-V").stdout == succeed("--version").stdout != "", "-V is not --version")
    check(re.fullmatch(r"gradwire \d+\.\d+\.\d+\n", run("-V").stdout), "the version's form")
    check(succeed("-h").stdout == succeed("help").stdout != "", "-h is not help")
    for command in COMMANDS:
        long, short = succeed(command, "--help"), succeed(command, "-h")
        check(long.stdout.startswith("Usage: ") and long.stdout == short.stdout, f"{command} -h")
        check(long.stderr == "", f"{command} --help speaks on standard error")
        check(f"gradwire {command}" in long.stdout.split("\n\n")[0], f"{command}: usage")
        if command != "help":
            check(succeed("help", command).stdout == long.stdout, f"help {command}")


def specs():
    text = succeed("help", "gtopk:0.01+q:4").stdout
    check("density=0.01" in text and "bits=4" in text, "help SPEC does not say what it is in full")
    check(text == run("list", "gtopk:0.01+q:4").stdout, "help SPEC is not list SPEC")
    check("gtopk" in succeed("help", "gtopk").stdout, "help NAME")
    # What is wrong with a spec is said, and not that it is no command.
    error = expect_error(2, ["density", "7"], "help", "gtopk:7").stderr
    check("command" not in error, f"a spec is not a command: {error!r}")
    expect_error(2, ["unknown command 'xyzzyx'"], "help", "xyzzyx")
    expect_error(2, ["one name at a time"], "help", "train", "plan")


def no_colour():
    """No escape that sets colours, on a terminal or not, with NO_COLOR or without; and in a pipe
    no escapes at all."""
    args = ["train", "--data", "synthetic:train=64,test=8,dim=4,classes=2", "--model", "softmax", "--workers", "1",
            "--spawn", "threads", "--batch", "8", "--epochs", "1"]
    for env in ({}, {"NO_COLOR": "1"}):
        with tempfile.TemporaryDirectory() as work:
            leader, follower = pty.openpty()
            child = subprocess.Popen([GRADWIRE, *args], cwd=work, stdin=follower, stdout=follower, stderr=follower,
                                     env={**os.environ, **env})
            os.close(follower)
            seen = read_all(leader)
            check(child.wait() == 0 and b"accuracy" in seen, f"train on a terminal: {seen!r}")
            check(not re.search(rb"\x1b\[[0-9;]*m", seen), f"colours with {env}")
            piped = run(*args, "--out", "piped", cwd=work)
            check("\x1b" not in piped.stdout + piped.stderr and "\r" not in piped.stderr, "escapes in a pipe")


def read_all(fd):
    seen = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # the other end is closed
            part = b""
        if not part:
            os.close(fd)
            return seen
        seen += part


# ---- manual pages -----------------------------------------------------------------


def lint(name, page):
    """Complaints about a manual page, of the tools that are here."""
    with tempfile.NamedTemporaryFile("w", suffix=".1") as file:
        file.write(page)
        file.flush()
        if shutil.which("mandoc"):
            r = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", file.name], capture_output=True, text=True)
            check(r.returncode == 0, f"{name}: mandoc: {r.stdout}")
        if shutil.which("man") and shutil.which("groff"):
            r = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", file.name],
                               capture_output=True, text=True, env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
            check(r.returncode == 0 and r.stderr == "", f"{name}: man: {r.stderr}")


def man_pages():
    for command in COMMANDS:
        page = succeed("help", "--man", command, env=DATED).stdout
        check(page.startswith(f'.TH GRADWIRE\\-{command.upper()} 1 2023-11-14 "gradwire '), f"{command}: title")
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
            check(f"\n.SH {section}\n" in page, f"{command}: no {section}")
        plain = page.replace("\\-", "-").replace("\\(aq", "'")
        help_text = run(command, "--help").stdout
        for flag in set(re.findall(r"^  (--[a-z-]+)", help_text, re.M)):
            check(f"\n\\fB{flag}\\fR" in plain, f"{command}: no {flag} in the page")
        for example in help_text.partition("\nExamples\n")[2].splitlines():
            check(example.strip() in plain, f"{command}: example {example!r} is not in the page")
        check(f"\n{'.SH FLAGS'}" not in page and "\nFlags\n" not in page, f"{command}: an empty heading")
        lint(command, page)
    page = succeed("help", "--man", "gradwire", env=DATED).stdout
    check(all(f"gradwire\\-{c}" in page for c in COMMANDS), "gradwire(1) lacks a command")
    lint("gradwire", page)
    expect_error(2, ["page 'trian'", "train"], "help", "--man", "trian")


def all_in_a_folder():
    with tempfile.TemporaryDirectory() as work:
        succeed("help", "--generate", work, env=DATED)
        made = sorted(os.path.relpath(os.path.join(d, f), work) for d, _, fs in os.walk(work) for f in fs)
        wanted = ["man/man1/gradwire.1", *(f"man/man1/gradwire-{c}.1" for c in COMMANDS),
                  "bash-completion/completions/gradwire", "zsh/site-functions/_gradwire",
                  "fish/vendor_completions.d/gradwire.fish"]
        check(made == sorted(wanted), f"generated {made}")
        with open(f"{work}/man/man1/gradwire-train.1", encoding="utf-8") as f:
            check(f.read() == run("help", "--man", "train", env=DATED).stdout, "the page differs")
        expect_error(1, ["/dev/null/x"], "help", "--generate", "/dev/null/x")


usual_names()
specs()
no_colour()
man_pages()
all_in_a_folder()
for tool in ("mandoc", "man", "groff"):
    if not shutil.which(tool):
        print(f"not checked with {tool}, which is not here")
finish()
