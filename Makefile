# The doors to hawser's scripts; each target is one line, the logic is in the script. `make demo` and `make test` are all that a
# fresh Debian with Rust and make needs: both install what is missing.

.PHONY: compile demo test bench check fmt clean plt test-otp install

compile: install
	rebar3 compile

demo: install
	@bench/demo.sh

test: install
	@test/run.sh all

check: install
	@test/run.sh check

bench: compile
	@bench/run.sh

# The same suites on another OTP, in a chroot: make test-otp OTP=27 (or 29). Root only.
test-otp: install
	@test/otp.sh

plt: install
	rebar3 dialyzer --succ-typings=false

fmt:
	cargo fmt --all
	mix format

clean:
	rm -rf _build target priv deps doc

install:
	@test/install.sh
