#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/two-pcs.md on two hosts of the test cluster: torchrun with --nnodes starts a training
over the wire between them, gradwire listens where it was told to, and what the page says
about wrong interfaces and ports is what one sees. Skipped where no cluster is possible."""
import os
import subprocess
import sys
import tempfile

from torch_crew import skip_without

skip_without("numpy", "torch")
import torch
import torch_example

SOURCE = os.environ["GRADWIRE_SOURCE"]
CLUSTER = os.path.join(SOURCE, "bench", "cluster", "cluster")
LIMIT = 200
# What each host runs; $RANK and $MASTER_ADDR come from the cluster. Redirecting is for the
# torchrun of PyTorch 1.13.
START = """
r=$RANK; unset RANK WORLD_SIZE MASTER_PORT GRADWIRE_ADDRESS; export GLOO_SOCKET_IFNAME={interface}
exec "$PYTHON" -m torch.distributed.run --nnodes 2 --nproc_per_node {workers} --node_rank $r \\
    --master_addr $MASTER_ADDR --master_port 29500 --redirects 1 --tee 1 --log_dir "$DATA/$r" \\
    "$EXAMPLE" --data-dir "$DATA" --epochs 2 --batch 16 --sync gtopk:0.1 2>&1
"""


def on_two_pcs(data, interface="wire", workers=1, **env):
    """The exit status and what both hosts print."""
    settings = dict(os.environ, PYTHON=sys.executable, DATA=data, OMP_NUM_THREADS="1",
                    EXAMPLE=os.path.join(SOURCE, "python", "examples", "mnist_ddp.py"), **env)
    done = subprocess.run(
        [CLUSTER, "--hosts", "2", "--rate", "100mbit", "--launch", "plain", "--", "sh", "-c",
         START.format(interface=interface, workers=workers)],
        env=settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
    print(done.stdout)
    return done.returncode, done.stdout


def test_trains(data):
    """With two workers on each host, and the ports of a firewall's hole."""
    status, out = on_two_pcs(data, workers=2, GRADWIRE_PORT="29600-29601")
    assert status == 0, status
    assert float(out.split("accuracy ")[1].split()[0]) > 0.5, out
    assert "sent " in out


def test_too_few_ports(data):
    status, out = on_two_pcs(data, workers=2, GRADWIRE_PORT="29600")
    assert status != 0
    assert "no port of GRADWIRE_PORT=29600 can be used on host" in out


def test_loopback(data):
    status, out = on_two_pcs(data, interface="lo")
    assert status != 0
    assert "Connection refused, remote=[127.0.0.1]:" in out


def test_wrong_interface(data):
    status, out = on_two_pcs(data, interface="eth9")
    assert status != 0
    assert "Unable to find address for: eth9" in out


def main():
    possible = subprocess.run([CLUSTER, "--check"], capture_output=True, text=True)
    if possible.returncode != 0:
        print(f"skipped: {(possible.stdout + possible.stderr).strip()}")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as data:
        torch_example.make_images(data)
        test_trains(data)
        test_too_few_ports(data)
        test_wrong_interface(data)
        if int(torch.__version__.split(".")[0]) >= 2:  # the words are those of PyTorch 2
            test_loopback(data)


main()
