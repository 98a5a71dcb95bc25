#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The archive of `make dist`: its bytes depend on the commit alone, it holds the tracked
# files, and a C compiler without anything else makes a library of it that works.
set -euo pipefail
: "${GRADWIRE_SOURCE:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test_install_dist: $*" >&2
    exit 1
}

cd "$GRADWIRE_SOURCE"
if ! git rev-parse --verify --quiet HEAD >/dev/null; then
    echo "skipped: the source is not a git repository"
    exit 77
fi
first=$(scripts/dist "$work/first" 2>/dev/null)
second=$(umask 077 && TZ=Asia/Tokyo scripts/dist "$work/second" 2>/dev/null)
cmp "$first" "$second" || fail "two archives of one commit differ"

cd "$work"
version=$(sed -n 's/^#define GW_VERSION_[A-Z]* \([0-9]*\)$/\1/p' "$GRADWIRE_SOURCE/include/gradwire.h" | paste -sd.)
[ "$(basename "$first")" = "gradwire-$version.tar.gz" ] || fail "$first is not named by the version $version"
tar -xzf "$first"
cd "gradwire-$version" || fail "the archive does not hold gradwire-$version"
git -C "$GRADWIRE_SOURCE" ls-tree -r --name-only HEAD | sort >../wanted
find . -type f -o -type l | sed 's|^\./||' | sort | diff ../wanted - || fail "other files than those tracked"

# Without optimisation, to be quick.
cc -O0 -ffp-contract=off -shared -fPIC -Iinclude -Isrc src/*.c src/*/*.c src/*/*/*.c \
    -Wl,-z,defs -o libgradwire.so -lm -pthread
cc examples/average.c -Iinclude -L. -lgradwire -Wl,-rpath,"$PWD" -o average
./average
