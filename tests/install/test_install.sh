#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs into an empty place and builds examples/average.c against what is
# there, as users do: with CMake and with pkg-config, shared and static.
set -euo pipefail
: "${GRADWIRE_SOURCE:?}" "${GRADWIRE_BUILD:?}"
example=$GRADWIRE_SOURCE/examples/average.c
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "test_install: $*" >&2
    exit 1
}

# The tree is staged and then moved: nothing in it may depend on where it was.
DESTDIR=$work/stage cmake --install "$GRADWIRE_BUILD" --prefix /opt/gradwire >install.log
mv stage/opt/gradwire prefix
pc=$(find prefix -name gradwire.pc)
lib=$work/$(dirname "$(dirname "$pc")")
for header in gradwire.h gradwire_spec.h gradwire_transport.h; do
    [ -f "prefix/include/$header" ] || fail "$header was not installed"
done
grep -rqF "$GRADWIRE_SOURCE" "$pc" "$lib/cmake" && fail "a package names the source tree"

# The shared library exports the public names and no others.
others=$(nm -D --defined-only "$lib/libgradwire.so" | awk '$3 !~ /^gw_/ { print $3 }')
[ -z "$others" ] || fail "the library exports $others"

export PKG_CONFIG_PATH=$lib/pkgconfig
version=$(pkg-config --modversion gradwire)
read -ra shared <<<"$(pkg-config --cflags --libs gradwire)"
cc "$example" "${shared[@]}" -o pc_shared
read -ra cflags <<<"$(pkg-config --cflags gradwire)"
cc "$example" "${cflags[@]}" "$lib/libgradwire.a" -lm -pthread -o pc_static
LD_LIBRARY_PATH=$lib ./pc_shared
./pc_static

cmake -S "$GRADWIRE_SOURCE/tests/install" -B cmake-build -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DEXAMPLE="$example" -DWANTED_VERSION="$version" >configure.log
cmake --build cmake-build >build.log
cmake-build/with_shared
cmake-build/with_static

# The same over MPI, where it was built; who uses it has an mpicc of their own.
if [ -f "$lib/pkgconfig/gradwire-mpi.pc" ] && command -v mpicc >/dev/null; then
    read -ra mpi <<<"$(pkg-config --cflags --libs gradwire-mpi)"
    mpicc -fsyntax-only "$GRADWIRE_SOURCE/examples/average_mpi.c" "${mpi[@]}"
    [ -f "$lib/libgradwire-mpi.a" ] || fail "no static library for MPI was installed"
    others=$(nm -D --defined-only "$lib/libgradwire-mpi.so" | awk '$3 !~ /^gw_/ { print $3 }')
    [ -z "$others" ] || fail "the MPI library exports $others"
fi
if [ -f "$lib/pkgconfig/gradwire-group.pc" ]; then
    read -ra group <<<"$(pkg-config --cflags --libs gradwire-group)"
    echo '#include "gradwire_group.h"' | cc -fsyntax-only -x c - "${group[@]}" || fail "gradwire_group.h"
    [ -f "$lib/libgradwire-group.a" ] || fail "no static library for groups was installed"
    others=$(nm -D --defined-only "$lib/libgradwire-group.so" | awk '$3 !~ /^gw_/ { print $3 }')
    [ -z "$others" ] || fail "the group library exports $others"
fi

# The licences of all that is installed.
share=prefix/share
grep -q "Apache License" "$share/doc/gradwire/LICENSE" || fail "no licence was installed"
if [ -f "$GRADWIRE_BUILD/report/page.html" ]; then
    grep -q "MIT License" "$share/doc/gradwire/LICENSE.uPlot" || fail "the licence of uPlot was not installed"
    grep -aq "Leon Sorokin" prefix/bin/gradwire || fail "the report page does not carry the licence of uPlot"
fi

# The command, where it was built, is installed with its pages and completion, and runs
# without the build tree.
if [ -x "$GRADWIRE_BUILD/gradwire" ]; then
    prefix/bin/gradwire --version
    mkdir wanted
    env -u SOURCE_DATE_EPOCH prefix/bin/gradwire help --generate wanted
    for file in $(cd wanted && find . -type f); do
        cmp "wanted/$file" "$share/$file" || fail "$file was not installed, or is another"
    done
    bash -c '. "$1" && complete -p gradwire' bash "$share/bash-completion/completions/gradwire"
fi

# The page of gradwire-exchange is written by hand, and says what its help says.
if [ -x prefix/bin/gradwire-exchange ]; then
    page=$share/man/man1/gradwire-exchange.1
    prefix/bin/gradwire-exchange -h | sed -n 's/^  \(--.*[^ ]\)  .*/\1/p' >flags
    sed -n 's/^\.BI* //p' "$page" | tr -d '\\"' | tr -s ' ' | grep '^--' | diff flags - || fail "$page has other flags"
fi

# What was installed is taken away again, and nothing else.
DESTDIR=$work/stage cmake --install "$GRADWIRE_BUILD" --prefix /opt/gradwire >install.log
touch stage/opt/gradwire/bin/mine
DESTDIR=$work/stage "$GRADWIRE_SOURCE/scripts/uninstall" "$GRADWIRE_BUILD" >uninstall.log
left=$(find stage -type f -o -type l)
[ "$left" = stage/opt/gradwire/bin/mine ] || fail "uninstall has left $left"
[ -z "$(find stage -type d -name '*gradwire' -empty)" ] || fail "uninstall has left folders of its own"

