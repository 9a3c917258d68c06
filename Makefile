# `make` alone builds the library. `make demo` and `make test` install what is missing. They need
# only a Rust toolchain, gcc and make.

PREFIX ?= /usr/local
DESTDIR ?=
# Folders below PREFIX, or absolute paths.
LIBDIR ?= lib
INCLUDEDIR ?= include
BINDIR ?= bin
# `no` builds the library without CUDA. Code for CUDA needs a newer Rust than the rest.
CUDA ?= yes
# For `make soak`: any value makes it take ten minutes.
SHORT ?=
# For `make bench`: any value makes it measure some rows of each kind, once.
QUICK ?=
# `no` leaves out the command line tools, which need a C compiler.
TOOLS ?= yes
# For `make group`.
N ?= 2
PROGRAM ?=

.DEFAULT_GOAL := build
.PHONY: help demo test docs check-full soak bench group setup build wheel bindings packages gpu dist install uninstall header clean

# Quotes a value for the shell, for any characters in it.
quoted = '$(subst ','\'',$(1))'

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make install PREFIX=/usr/local DESTDIR= LIBDIR=lib INCLUDEDIR=include BINDIR=bin TOOLS=yes"
	@echo "  make demo FILES='DIR ...'"
	@echo "  make group N=4 PROGRAM='path/to/program argument ...'"

demo: ## build, install into target/demo, and send files from process to process
	scripts/setup.sh demo
	scripts/demo.sh

test: ## everything fast, with its set-up; scripts/test.sh STEP ... runs a part
	scripts/setup.sh test
	scripts/test.sh

docs: ## build the site from docs/ and the header, into target/docs/html
	scripts/setup.sh docs
	scripts/docs.sh

check-full: ## all tests and the long checks: valgrind on everything, stress, hundreds of faults
	scripts/setup.sh full
	scripts/check_full.sh

soak: ## the longest checks: an hour of traffic, 2,000 faults, 10 million calls, decoders; SHORT=1 for ten minutes
	scripts/setup.sh full
	SHORT='$(SHORT)' scripts/soak.sh

bench: ## measure against raw UCP, UCXX and the MPIs; QUICK=1 for some rows, once
	scripts/setup.sh full
	scripts/bench.sh $(if $(QUICK),--quick)

group: ## start a program as the N members of a group on this machine
	@scripts/group.sh '$(N)' $(PROGRAM)

setup: ## install what building and the demo need (as root; otherwise print the command)
	scripts/setup.sh demo

wheel: ## build the wheel of the Python package ucxx-rs into target/wheel
	scripts/setup.sh wheel
	scripts/wheel.sh

bindings: ## build the library, and run the bindings of all languages that are installed
	scripts/setup.sh bindings
	scripts/test.sh stage
	bindings/run.sh $(or $(CARGO_TARGET_DIR),target)/stage

packages: ## build all packages of packaging/ that this machine can build, into target/packages
	scripts/setup.sh packages
	scripts/packages.sh build

gpu: ## build what a machine with a GPU and without tools runs: target/gpu-bundle, and .tar.xz
	scripts/setup.sh packages
	packaging/gpu/build.sh target

dist: ## make the files of a release, with checksums, into target/dist
	scripts/setup.sh packages
	packaging/dist.sh

features = $(if $(filter no,$(CUDA)), --no-default-features)
build: ## build the shared and the static library into target/release (the default)
	scripts/build.sh$(features)

folders = --prefix $(call quoted,$(PREFIX)) --destdir $(call quoted,$(DESTDIR)) --libdir $(call quoted,$(LIBDIR)) \
  --includedir $(call quoted,$(INCLUDEDIR)) --bindir $(call quoted,$(BINDIR)) --tools $(call quoted,$(TOOLS))
install: ## install under PREFIX (staged below DESTDIR)
	@# Under sudo cargo is often out of reach; what was built before is installed then.
	@if command -v cargo >/dev/null; then scripts/build.sh --quiet$(features); fi
	scripts/install.sh $(folders)

uninstall: ## remove what `make install` put there; give the same PREFIX, DESTDIR and folders
	scripts/install.sh $(folders) --uninstall yes

header: ## regenerate include/ucxx_rs.h from src/ffi
	UPDATE_HEADER=1 cargo test --locked --test header_sync

clean: ## remove everything that was built
	cargo clean
