# A short list of verbs; Meson and the scripts do the work.
#
#   make           the release build: build/nixie
#   make run       installs what is missing, builds, starts the server on ./data
#   make test      installs what is missing, then every layer; the last line is "N passed, N failed"
#   make conformance  foreign clients of RabbitMQ, all of them; PEER=rabbitmq runs them against rabbitmq-server
#   make test-clients  those of them that make test leaves out
#   make demo      real webhooks, failing workers, a killed server
#   make demo-outage  an outage, met by fixed retries and by a breaker
#   make bench     throughput, latency, memory and restart beside Redis
#   make lint      layers, headers, lengths, banned functions, format, static analysis
#   make sim       the simulator with a fresh seed, or with SEED=n
#   make fuzz      every fuzz target for FUZZ_SECONDS (60) each, keeping what it finds in build-fuzz/corpus
#   make asan      build-asan/nixie with AddressSanitizer and UBSan; make tsan: build-tsan/nixie with ThreadSanitizer
#   make format    clang-format over the tree
#   make install   the program and its man pages (PREFIX, DESTDIR)

# Debian's, whatever else is on the PATH.
MESON = /usr/bin/meson
NINJA = ninja $(NINJA_FLAGS)

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
ADDRESS ?= 127.0.0.1:8072
DATA ?= data

.PHONY: all run test conformance test-clients demo demo-outage bench lint sim fuzz asan tsan fuzz-build format clean install

all: build/build.ninja
	@$(NINJA) -C build

run:
	@scripts/setup build
	@$(MAKE) --no-print-directory all
	@scripts/run $(ADDRESS) $(DATA)

test:
	@scripts/setup test
	@scripts/test

conformance: $(if $(filter rabbitmq,$(PEER)),,all)
	@scripts/setup conformance
	@PEER=$(or $(PEER),nixie) scripts/test amqp clients

test-clients: all
	@scripts/setup conformance
	@scripts/test clients

demo: all
	@examples/demo/run

demo-outage: all
	@examples/demo-outage/run

bench: all
	@scripts/setup test
	@bench/run

lint:
	@scripts/lint

sim: all
	@build/tests/sim/sim $(if $(SEED),--seed $(SEED))

fuzz: fuzz-build
	@scripts/fuzz $(FUZZ_SECONDS)

asan: build-asan/build.ninja
	@$(NINJA) -C build-asan

tsan: build-tsan/build.ninja
	@$(NINJA) -C build-tsan

fuzz-build: build-fuzz/build.ninja
	@$(NINJA) -C build-fuzz

build/build.ninja:
	@$(MESON) setup -Db_lto=true build

build-asan/build.ninja:
	@$(MESON) setup -Db_sanitize=address,undefined build-asan

build-tsan/build.ninja:
	@$(MESON) setup -Db_sanitize=thread build-tsan

# b_lundef: the sanitizer's symbols come with the program that clang links.
build-fuzz/build.ninja:
	@CC=clang $(MESON) setup -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false build-fuzz

format:
	@git ls-files --cached --others --exclude-standard '*.[ch]' | xargs -r ls 2>/dev/null | xargs -r clang-format -i

install: all
	@$(MESON) configure build --prefix "$(abspath $(PREFIX))"
	@$(MESON) install -C build

clean:
	rm -rf build build-asan build-tsan build-fuzz build-lint
