#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lowrank and demo agree with PyTorch: with its PowerSGD hook to 1e-4, with DeMo's formulas to 1e-6."""
import os
import re
import subprocess
import sys

import torch_crew

torch_crew.skip_without("numpy", "torch")

PEERS = os.path.join(os.environ["GRADWIRE_SOURCE"], "bench", "peers")
FIGURE = r"[0-9.]+e[+-][0-9]+"


def differences(script, words, *args):
    """The figures that the script prints behind these words; its own status counts, too."""
    done = subprocess.run([sys.executable, os.path.join(PEERS, script), *args], capture_output=True, text=True)
    print(done.stdout.strip())
    if done.returncode == 77:
        sys.exit(77)
    found = [re.search(f"{word} ({FIGURE})", done.stdout) for word in words]
    assert done.returncode == 0 and all(found), f"{script}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return [float(f.group(1)) for f in found]


for crew in (["2", "12", "4"], ["3", "6", "1"]):
    assert differences("powersgd_torch.py", ["difference to the hook"], *crew)[0] <= 1e-4
assert max(differences("demo_torch.py", ["of coefficients", "of results"], "8")) <= 1e-6
print("ok")
