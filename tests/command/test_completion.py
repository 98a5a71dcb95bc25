# SPDX-License-Identifier: Apache-2.0
#
# test_completion.py - what shells offer after a part of a line. bash is asked through the
# function that is installed; zsh and fish are asked as well where they are there, and named
# where they are not.
import json
import os
import re
import shutil
import subprocess
import tempfile

from support_checks import check, finish, run, succeed

# Completes the line $1, and prints what is offered and which options the offer has.
ASK_BASH = r"""
source "$2"
compopt() { options+=" $*"; }
COMP_LINE=$1 COMP_POINT=${#1} options=
_gradwire gradwire
((${#COMPREPLY[@]})) && printf '%s\n' "${COMPREPLY[@]}"
echo "options:$options"
complete -p gradwire
"""
ASK_FISH = "source $argv[2]; complete -C $argv[1]"
# An interactive zsh on a pseudo-terminal: what it writes when Tab is hit, and the line then.
ZSHRC = r"""
PS1='ready '
fpath=($FOLDER $fpath)
autoload -U compinit
compinit -u -D
zstyle ':completion:*' insert-tab no
setopt nobeep autolist
unsetopt zle_bracketed_paste prompt_sp
show() { print -r -- "BEGIN${BUFFER}END"; }
zle -N show
bindkey '^T' show
"""
ASK_ZSH = r"""
zmodload zsh/zpty
zpty z zsh -i
zpty -r -m z line '*ready*'
zpty -w -n z "$1"$'\t\x14'
zpty -r -m z line '*END*'
print -r -- "$line"
zpty -d z
"""


def names(key):
    return [row["name"] for row in json.loads(run("list", "--json").stdout)[key]]


def bash(line, script):
    r = subprocess.run(["bash", "--norc", "-c", ASK_BASH, "bash", line, script], capture_output=True, text=True)
    check(r.returncode == 0 and r.stderr == "", f"bash: {line!r}: {r.stderr}")
    offered, _, rest = r.stdout.partition("options:")
    return offered.split(), rest.split("\n")[0]


def in_bash(work):
    script = f"{work}/bash-completion/completions/gradwire"
    syntax = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    check(syntax.returncode == 0, syntax.stderr)

    def offers(line, *wanted, options=""):
        got, more = bash(line, script)
        check(got == list(wanted) and options in more, f"bash: {line!r} offers {got}, options {more!r}")

    offers("gradwire tr", "train")
    offers("gradwire --v", "--version")
    offers("gradwire train --opt", "--optimizer")
    offers("gradwire train --optimizer ", *names("optimizers"))
    offers("gradwire train --optimizer=ada", *(n for n in names("optimizers") if n.startswith("ada")))
    offers("gradwire train --quiet --model ", *names("models"))
    offers("gradwire train --data fashion", "fashion-mnist")
    offers("gradwire train --data id", "idx:", options="-o nospace")
    offers("gradwire train --nesterov ", "off", "on")
    offers("gradwire train --lr-schedule co", "constant", "cosine")
    # Bash replaces what follows the colon only.
    offers("gradwire train --sync gto", "gtopk:0.001")
    offers("gradwire train --sync gtopk:", "0.001")
    offers("gradwire train --sync=gtopk:0", "0.001")
    offers("gradwire train --out ", options="-o dirnames")
    offers("gradwire train --init ", options="-o default")
    offers("gradwire train --epochs ")
    check(bash("gradwire train --epochs ", script)[1] == "", "names of files for a number")
    offers("gradwire compare --see", "--seeds", "--seed")
    offers("gradwire compare --optimizer adamw", "adamw")
    offers("gradwire simulate --model lst", "lstm-ptb")
    offers("gradwire list gt", "gtopk")
    offers("gradwire data g", "get")
    offers("gradwire data get mn", "mnist")
    offers("gradwire weights ", "export")
    offers("gradwire report run", options="-o default")
    offers("gradwire help pl", "plan")
    offers("gradwire help --completion ", "bash", "zsh", "fish")
    offers("gradwire xyzzyx ")
    flags, _ = bash("gradwire train --", script)
    wanted = re.findall(r"^  (--[a-z-]+)", run("train", "--help").stdout, re.M)
    check(flags == wanted, f"flags of train: {set(flags) ^ set(wanted)}")
    check(bash("gradwire train ", script)[0] == wanted, "flags where nothing else can stand")


def in_fish(work):
    script = f"{work}/fish/vendor_completions.d/gradwire.fish"
    env = {**os.environ, "HOME": work, "XDG_CONFIG_HOME": f"{work}/config", "XDG_DATA_HOME": f"{work}/data"}
    syntax = subprocess.run(["fish", "--no-config", "-n", script], capture_output=True, text=True, env=env)
    check(syntax.returncode == 0, f"fish: {syntax.stderr}")

    def offers(line, *wanted):
        r = subprocess.run(["fish", "--no-config", "-c", ASK_FISH, line, script], capture_output=True, text=True, env=env)
        got = [x.split("\t")[0] for x in r.stdout.splitlines()]
        check(sorted(got) == sorted(wanted) and r.stderr == "", f"fish: {line!r} offers {got} {r.stderr}")

    offers("gradwire tr", "train")
    offers("gradwire train --opt", "--optimizer")
    offers("gradwire train --optimizer ", *names("optimizers"))
    offers("gradwire train --sync gtopk:", "gtopk:0.001")
    offers("gradwire train --epochs ")
    offers("gradwire data get mn", "mnist")
    offers("gradwire compare --see", "--seed", "--seeds")


def in_zsh(work):
    folder = f"{work}/zsh/site-functions"
    syntax = subprocess.run(["zsh", "-n", f"{folder}/_gradwire"], capture_output=True, text=True)
    check(syntax.returncode == 0, f"zsh: {syntax.stderr}")

    with open(f"{work}/.zshrc", "w", encoding="utf-8") as f:
        f.write(ZSHRC)
    env = {**os.environ, "ZDOTDIR": work, "FOLDER": folder, "TERM": "dumb"}

    def offers(line, *wanted):
        r = subprocess.run(["zsh", "-f", "-c", ASK_ZSH, "zsh", line], capture_output=True, text=True, timeout=120, env=env)
        check(all(w in r.stdout for w in wanted), f"zsh: {line!r} offers {r.stdout!r} {r.stderr!r}")
        check("_arguments:" not in r.stdout and "error" not in r.stdout, f"zsh: {line!r}: {r.stdout!r}")

    offers("gradwire tr", "BEGINgradwire train END")
    offers("gradwire train --opt", "BEGINgradwire train --optimizer")
    offers("gradwire train --optimizer ", *names("optimizers"))
    offers("gradwire train --sync gt", "BEGINgradwire train --sync gtopk:0.001")
    offers("gradwire data get mn", "BEGINgradwire data get mnist")


with tempfile.TemporaryDirectory() as made:
    succeed("help", "--generate", made)
    in_bash(made)
    for shell, test in (("fish", in_fish), ("zsh", in_zsh)):
        if shutil.which(shell):
            test(made)
        else:
            print(f"{shell} is not installed: its completion was not tried")
finish()
