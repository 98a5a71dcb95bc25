# SPDX-License-Identifier: Apache-2.0
"""What the scripts in reproduce/ share: runs that are kept, tables, pages, figures."""
