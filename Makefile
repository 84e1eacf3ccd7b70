# The few commands of this repository. `make help` lists them; the work is in the scripts they call.

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-deps bench

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## several tenants on one SSD, with and without Gimbal (options: ARGS="...")
	cargo run --release -p gimbal -- demo $(ARGS)

bench: ## measure the switch on this machine: IOs per second over a null device, with and without Gimbal
	cargo build --release -p gimbal
	tests/bench.sh

test: test-deps ## everything a change must pass: format, lints, builds, tests, real Linux hosts
	tests/suite.sh

test-long: test-deps ## `make test`, then the tests that take too long for every change
	tests/suite.sh --long

test-deps: ## install the Debian packages the tests need, if any is missing
	@tests/install-deps.sh
