.DEFAULT_GOAL := help
# The long form of the kill test.
KILLS ?= 200
NOTIFICATIONS ?= 100000

# The long form of the replay of dead letters.
DEAD_LETTERS ?= 100000

# Orders tried of each pair of operations, state and trouble.
INTERLEAVINGS ?= 100

.PHONY: help test valkey kill replay interleavings demo screenshots openapi lint format clippy doc bench fair-shares page-times window

# Says where the servers are that the tests start for themselves, in front of a command.
with_servers = redis=$$(tests/redis-server.sh) && postgres=$$(tests/postgres-server.sh) && \
	RINGBACK_TEST_REDIS="$$redis" RINGBACK_TEST_POSTGRES="$$postgres"

# Says where the interpreters are that run the receivers of docs/receivers and the programs of docs/examples. The
# Python packages verify signatures, are for one receiver more, and are the tester of the HTTP API; without the tester, the
# tests say that they did not try it.
with_interpreters = python=$$(tests/interpreter.sh python) && node=$$(tests/interpreter.sh node) && \
	library=$$(tests/interpreter.sh standardwebhooks) && cryptography=$$(tests/interpreter.sh pycryptodome) && \
	tester=$$(RINGBACK_TEST_PYTHON="$$python" tests/interpreter.sh schemathesis || true) && export RINGBACK_TEST_PYTHON="$$python" \
	RINGBACK_TEST_NODE="$$node" RINGBACK_TEST_STANDARDWEBHOOKS="$$library" \
	RINGBACK_TEST_CRYPTOGRAPHY="$$cryptography" RINGBACK_TEST_SCHEMATHESIS="$$tester" &&

# Says where the browser is that opens the page in the tests, with its driver and the rules of accessibility. Without one,
# nothing is run, so that no test counts as passed that was not run.
with_browser = { { chromium=$$(tests/browser.sh chromium) && driver=$$(tests/browser.sh chromedriver) && \
	axe=$$(tests/browser.sh axe); } || { echo "make $@: NO test was run, since those in tests/it/page/real_browser need what \
	is named above" >&2; exit 1; }; } && export RINGBACK_TEST_CHROMIUM="$$chromium" \
	RINGBACK_TEST_CHROMEDRIVER="$$driver" RINGBACK_TEST_AXE="$$axe" &&

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: ## Run all tests, with Redis and PostgreSQL servers, Python, Node.js and Chromium found or fetched first
	$(with_interpreters) $(with_browser) $(with_servers) cargo test --locked

valkey: ## Run the tests of the schedule, of maintenance, of fail-overs and of the program on Valkey, which is fetched first
	valkey=$$(tests/valkey-server.sh) && postgres=$$(tests/postgres-server.sh) && \
	RINGBACK_TEST_REDIS="$$valkey" RINGBACK_TEST_POSTGRES="$$postgres" \
	cargo test --locked --test it -- schedule_contract:: maintenance:: fail_over:: reliability:: \
	end_to_end::lifecycle:: end_to_end::sharing:: end_to_end::window

kill: ## Kill servers and stores under load, in the long form; KILLS, NOTIFICATIONS and SEED can be given
	$(with_servers) \
	RINGBACK_KILL_KILLS=$(KILLS) RINGBACK_KILL_NOTIFICATIONS=$(NOTIFICATIONS) $(if $(SEED),RINGBACK_KILL_SEED=$(SEED)) \
	cargo test --locked --release --test it reliability::kill -- --nocapture --test-threads 1

replay: ## Kill servers while a job replays dead letters, in the long form; DEAD_LETTERS can be given
	$(with_servers) RINGBACK_REPLAY_NOTIFICATIONS=$(DEAD_LETTERS) \
	cargo test --locked --release --test it reliability::replay -- --nocapture --test-threads 1

interleavings: ## Try many orders of two servers' calls; INTERLEAVINGS can be given
	$(with_servers) RINGBACK_INTERLEAVINGS=$(INTERLEAVINGS) \
	cargo test --locked --test it interleaving:: -- --nocapture

demo: ## Watch a few notifications being delivered to a simulated merchant
	cargo run --locked --release -- demo

screenshots: ## Take the pictures of the page anew, into docs/images
	$(with_browser) RINGBACK_TEST_SCREENSHOTS=docs/images cargo test --locked --test it page::real_browser::screenshots

openapi: ## Write the description of the HTTP API anew, into docs/openapi.json
	cargo run --locked --quiet -- openapi > target/openapi.json && mv target/openapi.json docs/openapi.json

lint: format clippy ## Check the format and the lints; warnings are errors

format: ## Check the format alone
	cargo fmt --check

clippy: ## Check the lints alone
	cargo clippy --locked --all-targets -- -D warnings

doc: ## Build the documentation, private items included; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --document-private-items

bench: ## Measure the throughput, with Redis and PostgreSQL servers found or fetched first
	$(with_servers) cargo bench --locked --bench throughput

fair-shares: ## Measure how late calls are beside destinations in trouble
	$(with_servers) cargo bench --locked --bench fair_shares

page-times: ## Measure the pages with a million notifications, with a PostgreSQL server found or fetched first
	$(with_servers) cargo bench --locked --bench page

window: ## Measure ten million pending notifications, with Redis and PostgreSQL servers found or fetched first
	$(with_servers) cargo bench --locked --bench window
