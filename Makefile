# SPDX-License-Identifier: Apache-2.0
#
# The short way to everything; CMakeLists.txt and scripts/ do the work.
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
MINUTES ?= 30
OUT_ONLY ?= 0
export CMAKE_GENERATOR ?= $(if $(shell command -v ninja 2>/dev/null),Ninja,Unix Makefiles)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell nproc)

.PHONY: all run test test-torch test-mpich bench fuzz chaos results install uninstall wheel dist deb deb-test format
.PHONY: clean help
.PHONY: setup-run setup-test setup-mpich setup-deb

all: ## build the library and the command into build/
	@command -v cmake >/dev/null || { echo "no cmake: run scripts/setup first" >&2; exit 1; }
	@cmake --preset release
	@cmake --build --preset release --target product

run: setup-run ## install what is missing, build, and compare methods (minutes)
	@$(MAKE) --no-print-directory all
	@scripts/run

test: setup-test ## install what is missing and run every check (about twenty minutes)
	@scripts/test

test-torch: setup-test ## run the Python checks and examples with a recent PyTorch, in a virtual environment
	@scripts/test-torch

test-mpich: setup-mpich ## run the checks that need MPI with MPICH in place of Open MPI
	@cmake -S . -B build/mpich -DGRADWIRE_WERROR=ON -DMPI_C_COMPILER=mpicc.mpich \
		-DMPIEXEC_EXECUTABLE=mpiexec.mpich
	@cmake --build build/mpich
	@ctest --test-dir build/mpich -L mpi --output-on-failure --no-tests=error

bench: all ## measure kernels, wire and exchange on this machine
	@build/gradwire bench

fuzz: setup-test ## fuzz each decoder for FUZZ_SECONDS (default 60)
	@scripts/fuzz $(FUZZ_SECONDS)

chaos: all ## kill and replace workers at random for MINUTES (default 30), and say how it went
	@GRADWIRE=build/gradwire PYTHONPATH=tests/support GW_CHAOS_MINUTES=$(MINUTES) GW_CHAOS_OUT_ONLY=$(OUT_ONLY) \
		python3 -B -u tests/elastic/test_elastic_chaos.py

results: all ## run what is missing of docs/results.md (hours), or PAPER=NAME only
	@reproduce/results $(PAPER)

install: all ## install to PREFIX (default /usr/local), under DESTDIR if set
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"

uninstall: ## remove what make install has installed last, under DESTDIR if set
	@DESTDIR="$(DESTDIR)" scripts/uninstall build

wheel: setup-run ## build a wheel for every Python in build/wheel
	@scripts/wheel

dist: ## pack the last commit as build/dist/gradwire-VERSION.tar.gz
	@scripts/dist

deb: setup-deb ## build Debian packages in build/deb
	@scripts/deb

deb-test: ## build them, install them into a folder, use and remove them
	@scripts/setup deb || true
	@scripts/deb-test || [ $$? -eq 77 ]

format: ## format all C files
	@scripts/format

clean: ## remove everything that was built
	@rm -rf build

setup-run setup-test setup-mpich setup-deb: setup-%:
	@scripts/setup $*

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17
