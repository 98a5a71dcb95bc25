# SPDX-License-Identifier: Apache-2.0
"""How workers find each other, prove a secret, and connect. It needs no torch."""
