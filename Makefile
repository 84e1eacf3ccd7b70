# The few commands of this repository. `make help` lists them; the work is in the scripts they call.

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-deps bench calibrations verdicts counts deb oci arm64

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## several tenants on one SSD, with and without Gimbal (options: ARGS="...")
	cargo run --release -p gimbal -- demo $(ARGS)

bench: ## measure what the switch costs on this machine, as ratios, against goals (options: ARGS="...")
	cargo build --release -p gimbal -p perf -p reactor --bin gimbal --bin perf --example floor
	$${CARGO_TARGET_DIR:-target}/release/perf $(ARGS)

calibrations: ## measure anew what ReFlex, FlashFQ, PARDA and Level must know of the simulated SSDs
	cargo build --release -p gimbal
	for profile in dct983 dct983-b p3600 pm1725a sn200 consumer-slc; do \
		$${CARGO_TARGET_DIR:-target}/release/gimbal lab calibrate --profile $$profile --out calibrations/$$profile.toml || exit; \
	done
	for profile in slc small large qlc prompt lazy; do \
		folder=$$(mktemp -d) && \
		$${CARGO_TARGET_DIR:-target}/release/gimbal ssdtest simulated:consumer-$$profile --quick --out $$folder && \
		cp $$folder/profile.toml calibrations/probed/consumer-$$profile.toml && rm -r $$folder || exit; \
	done

verdicts: ## keep what the quick claims are found to be now: `make test` fails when one turns
	cargo build --release -p gimbal
	$${CARGO_TARGET_DIR:-target}/release/gimbal lab claims --quick --keep experiments/verdicts.txt

counts: ## keep what instructions are counted now: `make test` fails when one count differs by more than 2 %
	cargo build --release --locked -p gimbal -p counts
	$${CARGO_TARGET_DIR:-target}/release/counts --keep

deb: ## the Debian package, in target/dist: binary, service, manual (docs/install.md)
	packaging/deb.sh "$$(packaging/build.sh)"

oci: ## a container image as an OCI archive, in target/dist
	packaging/oci.sh "$$(packaging/build.sh)"

arm64: ## build for arm64, and run the tests of the core crates there, emulated
	packaging/arm64.sh

test: test-deps ## everything a change must pass: format, lints, builds, tests, real Linux hosts
	tests/suite.sh

test-long: ## `make test`, then the tests that take too long for every change
	@tests/install-deps.sh --long
	tests/suite.sh --long

test-deps: ## install the Debian packages the tests need, if any is missing
	@tests/install-deps.sh
