# SPDX-License-Identifier: Apache-2.0
"""crew.py - a process that runs one side of many cases, each in threads of its own.

The driver (test_hostile_peer.py) writes a case per line to the standard input and reads
what has come of it from the standard output, as JSON. Starting processes would take
most of the time.

    crew.py victims     the honest workers of a case: ordinary ones, by rendezvous()
    crew.py hostile     the peer of a case (relay.py)
"""
import json
import os
import sys
import threading
import time

import gradwire
import relay
import training

_out = threading.Lock()


def say(**what):
    with _out:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()


def start(target, *arguments):
    threading.Thread(target=target, args=arguments, daemon=True).start()


def _victim(job, rank):
    def join():
        return gradwire.rendezvous(rank, job["workers"], job["where"],
                                   timeout=job["limit"], address="127.0.0.1",
                                   secret=job["secret"])
    begun = time.monotonic()
    came = training.run(job, rank, join)
    say(id=job["id"], rank=rank, came=came, seconds=time.monotonic() - begun)


def victims(job):
    for rank in range(job["workers"]):
        if rank != job["rank"]:
            start(_victim, job, rank)


_relays = {}


def _hostile(job):
    peer = relay.Relay(job)
    _relays[job["id"]] = peer
    say(id=job["id"], did=peer.run())


def hostile(job):
    if "end" in job:
        peer = _relays.pop(job["end"], None)
        if peer is not None:
            peer.end()
    else:
        start(_hostile, job)


def _status():
    """What must not grow: memory, descriptors, threads."""
    with open("/proc/self/status") as f:
        fields = dict(line.split(":", 1) for line in f)
    return {"peak_mb": int(fields["VmHWM"].split()[0]) >> 10,
            "descriptors": len(os.listdir("/proc/self/fd")),
            "threads": int(fields["Threads"])}


def main():
    act = {"victims": victims, "hostile": hostile}[sys.argv[1]]
    say(recipes=[name for name, _ in gradwire.recipes()],
        torch="torch" in sys.modules, status=_status())
    for line in sys.stdin:
        job = json.loads(line)
        if "status" in job:
            say(id=job["id"], status=_status())
        else:
            act(job)


if __name__ == "__main__":
    main()
