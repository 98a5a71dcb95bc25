# SPDX-License-Identifier: Apache-2.0
"""What attach() is made of: where a PyTorch model's gradients come from, how they are
exchanged, and the handle that attach() returns. All of it needs torch."""
