# CI runs `make check`; the other targets are for development. `make demo` and `make test` set up everything they need.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMPS := .setup
OUT ?= out
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# Processes of pytest: one more than processors, because tests of guests, hosts and clusters wait for a part of their time.
TESTERS ?= $(shell expr $(JOBS) + 1)
# The profile of the native module and the agent, which are always optimised: a debug build simulates ten times slower.
# `dev` is for work on the bindings. Both have one profile, so that Cargo builds their common dependencies once.
PROFILE ?= release
# The profile of the Rust tests, and of everything in CI (`make check PROFILE=ci`).
export TEST_PROFILE ?= ci
# Crates are selected together: with `-p` the dependencies have other features, and Cargo builds them again.
WORKSPACE := --locked --quiet --workspace
PLANS := rate-limiter-latency rate-limiter-mark-data rate-limiter-mark-ack rate-limiter-sequence rate-limiter-fixed

# Sources of the native module. It is built again if one of them is newer than the stamp.
RUST := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

# Profile-guided optimisation, if the Rust toolchain supports it (`rustup component add llvm-tools`).
PROFILED := sh tools/pgo.sh use
IF_POSSIBLE := @! sh tools/pgo.sh possible || $(MAKE) --no-print-directory pgo

.PHONY: help quick quick-rust quick-python lint-rust lint-python setup pgo agent site wheel release kernel kernel-variants demo fidelity figures test test-rust test-python for-tests tests-python tests-realtime torture check lint format bench bench-host bench-testbed gate gate-quiet quality history testbed testbed-vm fuzz clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMPS)/native ## The Python environment and the native module

$(STAMPS)/venv: tools/venv.sh
	@mkdir -p $(STAMPS)
	@sh tools/venv.sh $(VENV)
	@touch $@

$(STAMPS)/packages: $(STAMPS)/venv requirements.lock requirements-dev.lock
	@echo "Installing the pinned Python packages"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock -r requirements-dev.lock
	@touch $@

$(STAMPS)/native: $(STAMPS)/packages pyproject.toml $(RUST)
	@echo "Building the native module"
	@PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(PROFILE) --quiet
	@$(BIN)/python -m compileall -q python/tcpassay  # as `pip install` does; PYTHONDONTWRITEBYTECODE may be set at run time
	@touch $@

pgo: $(STAMPS)/pgo ## The native module with profile-guided optimisation: a run takes a fifth less time (seven minutes of CPU; needs llvm-tools)

# The instrumented module and the optimised module must give identical results.
$(STAMPS)/pgo: $(STAMPS)/native tools/pgo.sh tools/pgo_train.py
	@sh tools/pgo.sh take $(BIN)/python
	@echo "Building the native module with the profile"
	@PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(PROFILED) $(BIN)/maturin develop --profile release --quiet
	@$(BIN)/python tools/pgo_train.py | diff "$${CARGO_TARGET_DIR:-target}/pgo/trained" -
	@touch $@

agent: ## The agent, in the package folder; with BPF if it can be built
	@cargo build $(WORKSPACE) --profile $(PROFILE) --bin tcpassay-agent $$(sh tools/bpf.sh)
	@cp --remove-destination "$${CARGO_TARGET_DIR:-target}/$(PROFILE:dev=debug)/tcpassay-agent" python/tcpassay/tcpassay-agent

site: $(STAMPS)/native ## The documentation as static pages, in the package folder; `tcpassay docs` opens them (TCPASSAY_REPOSITORY=https://... links to sources)
	@$(BIN)/python tools/site/build.py python/tcpassay/docs/html

wheel: setup agent site ## A wheel with the agent and the documentation; it is tested in a new environment with a plan, its report and the agent
	$(IF_POSSIBLE)
	@CARGO_TARGET_DIR="$${CARGO_TARGET_DIR:-target}" $(PROFILED) $(BIN)/maturin build --profile $(PROFILE) --out $(OUT)/wheel --quiet
	@sh tools/wheel.sh $(BIN)/python $(OUT)/wheel

release: wheel ## The files of a release: wheel, documentation, pinned packages, SBOM, hashes (out/release; docs/install.md)
	@sh tools/release.sh $(BIN)/python $(OUT)/wheel $(OUT)/release

kernel: setup agent ## Linux 6.1 for the substrate `kernel`, once (about ten minutes of CPU; needs flex, bison, bc), and its tests
	@sh tools/kernel.sh $(BIN)/tcpassay
	$(BIN)/python -m pytest --quiet --numprocesses $(JOBS) --dist loadfile tests/kernel

# These are whole builds, which CI does not repeat; docs/dev/status.md has the last result.
kernel-variants: setup agent ## Linux 6.1 with counters of executed lines and with checkers (ten minutes of CPU), and their tests
	@$(BIN)/tcpassay kernel build --debian 6.1 --coverage
	@$(BIN)/tcpassay kernel build --debian 6.1 --debug --patch tests/kernel/patches/planted-faults.patch
	$(BIN)/python -m pytest --quiet tests/kernel/test_kernel_coverage.py tests/kernel/test_checkers.py

demo: setup ## A sweep around the paper's rate limiter: find the stalls, isolate their cause, explain one with a sequence diagram
	@$(BIN)/tcpassay run plans/demo.toml --jobs $(JOBS) --out $(OUT)/demo --force || [ $$? -eq 1 ]
	@echo; echo "Which of the settings cause it:"; echo
	@$(BIN)/tcpassay isolate $(OUT)/demo late-ack --jobs $(JOBS) --budget 60s || [ $$? -eq 130 ]
	@echo; echo "What happens:"; echo
	@$(BIN)/tcpassay explain $(OUT)/demo late-ack
	@$(BIN)/tcpassay report $(OUT)/demo
	@$(BIN)/python tools/demo.py $(OUT)/demo

# One seed of every case, two more seeds of the cases with random losses.
fidelity: setup agent ## Compare the model with Linux 6.1 on two covering arrays and random cases, and write docs/fidelity.md (needs `make kernel`; half an hour of CPU)
	@$(BIN)/tcpassay run plans/fidelity.toml --seed 1 --jobs $(JOBS) --out $(OUT)/fidelity/1 --force || [ $$? -eq 1 ]
	@for seed in 2 3; do $(BIN)/tcpassay run plans/fidelity.toml --seed $$seed --filter damage=loss-tenth --filter damage=loss-1 \
		--filter damage=bursts --filter damage=duplicate --jobs $(JOBS) --out $(OUT)/fidelity/$$seed --force || [ $$? -eq 1 ] || exit; done
	@sed 's/^seed = 1$$/seed = 2/' plans/fidelity.toml > $(OUT)/fidelity/second.toml
	@$(BIN)/tcpassay run $(OUT)/fidelity/second.toml --seed 1 --jobs $(JOBS) --out $(OUT)/fidelity/held --force || [ $$? -eq 1 ]
	@sed 's/^kind = "t-way"$$/kind = "random"/; s/^strength = 2$$/count = 60/; s/^seed = 1$$/seed = 3/' plans/fidelity.toml > $(OUT)/fidelity/random.toml
	@$(BIN)/tcpassay run $(OUT)/fidelity/random.toml --seed 1 --jobs $(JOBS) --out $(OUT)/fidelity/random --force || [ $$? -eq 1 ]
	@$(BIN)/python tools/fidelity.py docs $(OUT)/fidelity/[1-3] --held $(OUT)/fidelity/held --random $(OUT)/fidelity/random

figures: setup ## Figures 1, 2, 3, 4 and 7 of the paper; the checks of their plans verify what the figures show
	@for plan in $(PLANS); do \
		$(BIN)/tcpassay run plans/papers/$$plan.toml --jobs $(JOBS) --out $(OUT)/$$plan --force || [ $$? -eq 1 ] || exit; echo; \
	done
	@$(BIN)/python tools/figures.py $(OUT)

test: test-rust test-python ## Every test, Rust and Python

# The kills of `make testbed`; `make check` has a sample of them. Other moments: make testbed KILLS_SEED=2.
KILLS ?= 100
KILLS_SEED ?= 1

testbed: setup agent ## The tests of the substrate `remote` with KILLS kills at random moments (needs root and openssh-server)
	TCPASSAY_KILLS=$(KILLS) TCPASSAY_KILLS_SEED=$(KILLS_SEED) $(BIN)/python -m pytest --quiet tests/testbed

testbed-vm: setup agent ## The substrate `remote` on three virtual machines with NICs and two kernels (needs root, Debian, qemu-system-x86 and debootstrap)
	$(BIN)/python -m pytest --quiet tools/testbed_vm

quality: setup ## Run the Rust tests with each planted fault of the model (tests/quality/model)
	$(BIN)/python tools/quality/run.py --out $(OUT)/quality --table docs/quality.md

history: setup agent ## Reintroduce old bugs of Linux into 6.1, and determine which of them two shipped plans find (two hours of CPU; needs flex, bison, bc)
	$(BIN)/python tools/quality/history.py --out $(abspath $(OUT))/history --jobs $(JOBS)

gate: ## Compare instructions per packet-hop with bench/instructions.json (needs valgrind; prints a message without it)
	python3 tools/instr_gate.py

# Instructions do not depend on other load. With the lowest priority and one process they leave the processors to the tests in real time.
gate-quiet:
	nice -n 19 python3 tools/instr_gate.py --jobs 1

# A fixed seed, so that property tests use the same examples each time; a plain `cargo test` uses new ones.
test-rust: export PROPTEST_RNG_SEED ?= 1
test-rust:
	cargo test $(WORKSPACE) --profile $(TEST_PROFILE) $$(sh tools/bpf.sh --install)

# Ray (240 MB) is an optional dependency for running plans on a cluster; its tests need it.
$(STAMPS)/ray: $(STAMPS)/packages requirements-ray.lock
	@echo "Installing Ray"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-ray.lock
	@touch $@

test-python: for-tests
	@$(MAKE) --no-print-directory tests-python
	@$(MAKE) --no-print-directory tests-realtime

for-tests: setup agent $(STAMPS)/ray
	@sh tools/chromium.sh
	@sh tools/ssh.sh
	@sh tools/kernel.sh $(BIN)/tcpassay if-possible

tests-python:
	$(BIN)/python -m pytest --quiet --durations=10 --numprocesses $(TESTERS) --dist loadfile --no-loadscope-reorder -m "not realtime"

tests-realtime:
	$(BIN)/python -m pytest --quiet --durations=10 -m realtime

# `make check` repeats the same trials each time. A longer search: make torture TORTURE="--seconds 3600 --seed 100".
TORTURE ?= --seed 1 --trials 1 --jobs $(JOBS)

torture: setup ## Fault injection: damaged and hostile folders, kills, signals, full disks, invalid plans (TORTURE="--seed N --seconds S")
	$(BIN)/python tools/torture $(TORTURE)

# Each stage prints when it began and how long it took. Where one leaves a processor idle, two run at the same time.
STAGE = @sh tools/stage.sh $(STAMPS)/stages
TWO := $(MAKE) --no-print-directory --jobs 2 --output-sync=target

check: ## What CI runs: lints, every test, a short torture, instructions per packet-hop; prints where its time goes
	@mkdir -p $(STAMPS) && rm -f $(STAMPS)/stages
	$(STAGE) "Python packages, native module" $(MAKE) --no-print-directory setup
	$(STAGE) "lints" $(TWO) lint-rust lint-python
	$(STAGE) "tests in Rust" $(MAKE) --no-print-directory test-rust
	$(STAGE) "agent, programs for the tests in Python" $(MAKE) --no-print-directory for-tests
	$(STAGE) "tests in Python" $(MAKE) --no-print-directory tests-python
	$(STAGE) "tests in real time, instructions per packet-hop" $(TWO) tests-realtime gate-quiet
	$(STAGE) "torture" $(MAKE) --no-print-directory torture
	@sh tools/stage.sh $(STAMPS)/stages

# `make quick` tests the crates without guests and network namespaces, and Python without long simulations.
QUICK_CRATES := units states wire capture cc tcp workload measure case
QUICK_TESTS := tests/plan/test_quantity.py tests/plan/test_axis.py tests/plan/test_constraints.py tests/plan/test_extends.py tests/plan/test_refusals.py \
	tests/cover/test_space.py tests/cover/test_verify.py tests/cover/test_contradiction.py tests/compare/test_signedrank.py \
	tests/test_adding.py tests/test_arrows.py tests/test_interface.py tests/test_layers.py tests/test_levels.py tests/test_listing.py tests/test_native.py tests/test_output.py tests/test_plan.py

quick: setup ## Before each commit: formats, lints, types, import cycles, unit tests of the core, a part of pytest
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target quick-rust quick-python

quick-rust:
	cargo fmt --all --check
	cargo clippy $(WORKSPACE) -- -D warnings
	cargo test --locked --quiet --lib $(QUICK_CRATES:%=-p tcpassay-%)

quick-python:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/layers.py $(LAYERED)
	$(BIN)/python -m pytest --quiet $(QUICK_TESTS)

# Crates and packages without import cycles between their modules.
LAYERED := crates/units crates/states crates/wire crates/stack crates/cc crates/tcp crates/workload crates/measure crates/case crates/linux crates/capture crates/messages crates/judge crates/follow crates/sim crates/script crates/agent crates/bpf crates/python python/tcpassay

lint: lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy $(WORKSPACE) --profile $(TEST_PROFILE) --all-targets -- -D warnings
	@features=$$(sh tools/bpf.sh) && { [ -z "$$features" ] || \
		cargo clippy $(WORKSPACE) --profile $(TEST_PROFILE) --all-targets $$features -- -D warnings; }

lint-python: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tools/layers.py $(LAYERED)
	@sh tools/js.sh
	@sh tools/audit.sh $(BIN)/python

format: setup ## Format Rust and Python; regenerate the Python and TypeScript types from the Rust declarations
	cargo fmt --all
	$(BIN)/python tools/interface.py
	$(BIN)/python tools/page_types.py
	$(BIN)/ruff check --fix --quiet || true
	$(BIN)/ruff format

bench: setup ## Speed of the wheel's native module: packets per CPU second, overhead of the runner, memory; also of ns-3 if libns3-dev is installed
	$(IF_POSSIBLE)
	$(PROFILED) cargo run --locked --release --quiet -p tcpassay-python --example speed
	@if pkg-config --exists ns3-core 2>/dev/null || ls /usr/include/ns3* >/dev/null 2>&1; then \
		mkdir -p $(OUT)/bench; $(MAKE) --no-print-directory $(OUT)/bench/dumbbell && $(OUT)/bench/dumbbell; \
	else echo "ns-3 is not installed (Debian: libns3-dev); bench/ns3 contains the same scenarios for it"; fi
	$(BIN)/python tools/bench_run.py
	$(BIN)/python bench/stacks.py
	$(BIN)/python bench/capture.py
	$(BIN)/python bench/capture.py --bytes 100000000 --headers

bench-host: setup agent ## Compare the traffic generators on this machine's kernel with iperf3 and a C ping-pong (needs root, iperf3, gcc)
	$(BIN)/python tools/bench_host.py

bench-testbed: setup agent ## Time per case, differences of the starts and memory on a testbed of 17 hosts in namespaces (needs root and openssh-server)
	$(BIN)/python bench/testbed.py

$(OUT)/bench/dumbbell: bench/ns3/dumbbell.cc
	g++ -O2 -std=c++17 -o $@ $< $$(pkg-config --cflags --libs 'ns3-*' 2>/dev/null || for lib in /usr/lib/*/libns3*.so; do echo $$lib; done)

# The targets of fuzz/fuzz_targets, and the seconds for which each runs.
FUZZ ?= packet case connection script code capture oracles siftr
FUZZ_SECONDS ?= 60

fuzz: ## Fuzz the parsers and the connection, FUZZ_SECONDS per target (needs cargo-fuzz and a nightly toolchain)
	@cargo fuzz --version >/dev/null 2>&1 || { echo "cargo-fuzz is missing: cargo install --locked cargo-fuzz" >&2; exit 2; }
	@cd fuzz && for target in $(FUZZ); do \
		cargo +nightly fuzz run $$target $$(case $$target in case|oracles) echo --features $$target;; capture) echo --features follow;; esac) -- -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit; \
	done

clean: ## Remove all files that make built, except Cargo's target folder
	rm -rf $(VENV) $(STAMPS) $(OUT) python/tcpassay/_native*.so
