# make help lists the targets. All but bench, race, fuzz, faults, netns, programs, interop, agents, agents-newest, web, web-picture, pictures and packages need Go alone.

GO      ?= go
RELEASE = 0.1.0
VERSION ?= $(RELEASE)$(shell git describe --always --dirty --exclude '*' 2>/dev/null | sed 's/^/+/')
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
MODULE   = $(shell sed -n 's/^module //p' go.mod)
INFO     = $(MODULE)/internal/buildinfo
TAGS     = nethttpomithttp2
LDFLAGS  = -s -w -X $(INFO).version=$(VERSION) -X $(INFO).commit=$(COMMIT)
PREFIX  ?= $(HOME)/.local
FUZZTIME ?= 30s
STORM ?= 10000
AGENTS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/acpd-agents
STORMFILE ?=
# Where the files of a release are downloaded from, for the formula for Homebrew. There is no such place yet.
BASE ?=
DEBIAN ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/acpd-debian.tar
# A file that names the tests, or packages, that a target runs of all that it has, like .ci/cases.
CASES ?=
cases = $(shell sed -n 's/^$(1): //p' $(CASES))
run = $(if $(CASES),-run '^($(shell sed -n 's/^$(1): //p' $(CASES) | paste -sd' ' | tr ' ' '|'))$$')

.DEFAULT_GOAL := build

.PHONY: help build test race everything seeds storm kills lint fuzz faults netns programs interop agents agents-newest web web-picture reach crowd bench pgo demo pictures install dist packages

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

build: ## bin/acpd and bin/acpctl
	@echo 'Building acpd and acpctl: one to three minutes the first time, seconds later.'
	CGO_ENABLED=0 $(GO) build -trimpath $(BUILDFLAGS) -tags $(TAGS) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/acpd ./cmd/acpctl

# The programs come first, since packages of tests that ran at once would each compile them. Tests and checks
# leave out the compiler's profile, for which all that acpd imports would be compiled a second time. The packages
# that take longest begin first, so that none of them runs alone at the end.
LONGEST = ./peer ./openintent ./oacp/transfer ./daemon ./integration
test: build ## all tests, on loopback and a virtual network
	$(GO) test -pgo=off -tags $(TAGS) -shuffle=on -timeout 20m $(LONGEST) ./...
	cd bench && $(GO) test -tags $(TAGS) -shuffle=on ./...

# On one core, because Go's race detector counts all timers of a synctest bubble as one thread, and crashes
# when several run at once (golang/go#78156). It still finds what is not ordered in what runs; orders that only
# several cores give are for the programs that tests start, and for make test. The scripts of cmd/acpctl, which
# take minutes, are left to it: the packages that they call are watched in their own tests. SQLite is C made into Go: watched
# too, it would take most of the time. integration/live compiles programs with the same flags.
RACE = -race -pgo=off -tags $(TAGS) -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false
race: ## the same under the race detector, which does not watch SQLite's C, with fewer repetitions (needs a C compiler)
	CGO_ENABLED=1 $(GO) build $(RACE) ./cmd/acpd ./cmd/acpctl
	CGO_ENABLED=1 $(GO) test $(RACE) -short -cpu=1 -shuffle=on -timeout 20m $(if $(CASES),$(call cases,race),$(LONGEST) $$($(GO) list ./... | grep -v '/cmd/acpctl$$'))

everything: ## as .ci/run, with all cases of each target, and longer storms: about an hour
	./.ci/run everything

seeds: ## both sides dialling at once, 10,000 seeds
	$(GO) test ./peer -run TestSimultaneousDial -seeds 10000

storm: ## STORM (10,000) calls, requests and mails each in a virtual network, STORM/75 questions and STORM/4 kept messages between real daemons, while everything goes wrong; STORMFILE keeps the tally for the next run
	$(GO) test ./peer -run '^TestWhatCallsSayIsTrue$$' -count=1 -timeout 0 -v -storm.calls $(STORM) -storm.file '$(STORMFILE)'
	$(GO) test ./peer -run '^TestWhatCallsSayOverARelayIsTrue$$' -count=1 -timeout 0 -v -storm.calls $(STORM) -storm.file '$(if $(STORMFILE),$(STORMFILE).relay)'
	$(GO) test ./openintent/remote -run '^TestWhatChannelsSayIsTrue$$' -count=1 -timeout 0 -v -storm.calls $(STORM) -storm.file '$(if $(STORMFILE),$(STORMFILE).channels)'
	$(GO) test ./oacp/transfer -run '^TestWhatTheQueueSaysIsTrue$$' -count=1 -timeout 0 -v -storm.calls $(STORM) -storm.file '$(if $(STORMFILE),$(STORMFILE).mail)'
	$(GO) test ./daemon -run '^TestWhatIsAnsweredArrives$$' -count=1 -timeout 0 -v -storm.calls $$(($(STORM) / 75 + 1)) -storm.file '$(if $(STORMFILE),$(STORMFILE).questions)'
	$(GO) test ./daemon -run '^TestEachKeptMessageHasOneEnd$$' -count=1 -timeout 0 -v -storm.calls $$(($(STORM) / 4 + 1)) -storm.file '$(if $(STORMFILE),$(STORMFILE).kept)'

kills: ## 50 times kill -9 while mail is on its way
	$(GO) test ./integration -run TestMailSurvivesKills -count=1 -kills 50

# Tools are run by go run, since go tool builds them without GOFLAGS, and compiles what they import once more.
lint: ## gofmt, vet, types (for macOS and for 32 bits too), staticcheck, tidiness, known vulnerabilities where their database can be reached
	@out=$$(gofmt -l .) || exit 1; test -z "$$out" || { echo "$$out"; echo "not gofmt'ed: run gofmt -w on these files"; exit 1; }
	$(GO) vet -pgo=off -tags $(TAGS),netns,interop,profile,faults,agents,web,packages ./...
	$(GO) run ./integration/crosscheck darwin/arm64 linux/386
	cd bench && $(GO) vet -tags $(TAGS) ./...
	cd packaging/dist && $(GO) vet -tags $(TAGS) ./...
	cd integration/relay && $(GO) vet -tags $(TAGS) ./...
	GOFLAGS="$$($(GO) env GOFLAGS) -pgo=off" $(GO) run honnef.co/go/tools/cmd/staticcheck -tags $(TAGS),netns,interop,faults,agents,web,packages ./...
	$(GO) mod tidy -diff
	cd bench && $(GO) mod tidy -diff
	cd packaging/dist && $(GO) mod tidy -diff
	cd integration/relay && $(GO) mod tidy -diff
	@if out=$$(GOFLAGS="$$($(GO) env GOFLAGS) -pgo=off" $(GO) run golang.org/x/vuln/cmd/govulncheck ./... 2>&1); then echo "$$out" | tail -n 1; \
	elif echo "$$out" | grep '^govulncheck: fetching vulnerabilities: '; then echo "so known vulnerabilities were not looked for"; \
	else echo "$$out"; exit 1; fi

fuzz: ## every fuzz target for FUZZTIME (30s)
	@set -e; found=; packages=$$($(GO) list ./...); for pkg in $$packages; do \
	  listed=$$($(GO) test -list '^Fuzz' $$pkg); \
	  for target in $$(echo "$$listed" | sed -n '/^Fuzz/p'); do \
	    echo "$$pkg $$target"; found=1; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg; \
	  done; \
	done; test -n "$$found" || { echo "no fuzz target is found"; exit 1; }

faults: ## what breaks beneath running daemons, and whether their promises hold: root; FAULTS=-short takes a few minutes less
	$(GO) test -tags $(TAGS),faults -count=1 -timeout 30m -v $(call run,faults) $(FAULTS) ./integration/faults

netns: ## real daemons on hosts that are network namespaces: root, or user namespaces; iproute2, nftables, avahi-daemon, avahi-utils, dbus
	$(GO) test -tags $(TAGS),netns -count=1 -timeout 20m -v $(call run,netns) ./integration/netns

programs: ## install what make interop, make agents, make pictures and make packages run
	./integration/interop/install.sh .interop
	./integration/agents/install.sh '$(AGENTS)'
	./integration/packages/debian.sh '$(DEBIAN)'

interop: ## against the release before (built from history, or fetched), the OACP reference tool, the OpenIntent SDK, MCP's Inspector and conformance suite, and with python/acpd as a wheel, which it installs in .interop (needs python3 with venv, PyPI, Node.js with npm)
	./integration/interop/install.sh .interop
	$(GO) vet -tags $(TAGS),interop ./integration/interop ./integration/release ./openintent
	$(GO) test -tags $(TAGS),interop -shuffle=on -count=1 -timeout 30m $(call run,interop) ./integration/interop ./integration/release
	$(GO) test -tags $(TAGS),interop -count=1 -run '^(TestSDKVectors|TestSDKConcurrently|TestOpenAPIByALinter)$$' ./openintent

reach: ## the link over a relay with real NATS servers, which are built into the tests
	cd integration/relay && $(GO) test -tags $(TAGS) -shuffle=on -timeout 20m $(call run,reach) ./...

crowd: ## a thousand certified keys at one daemon, a thousand daemons on one relay that is restarted, and hostile members of its account and trusted peers: the machine to itself
	$(GO) test ./peer -run '^TestCertifiedCrowdLeavesTheTrustedTheirShare$$' -count=1 -timeout 20m -v -crowd 1000
	cd integration/relay && $(GO) test -count=1 -timeout 20m -v ./processes -run '^(TestCrowd|TestHostileAccount|TestHostileTrustedPeer)$$' -crowd 1000 -rounds 20

web: ## the page of acpctl web in a real browser (chromium)
	$(GO) vet -tags $(TAGS),web ./integration/web
	$(GO) test -tags $(TAGS),web -count=1 -timeout 20m $(call run,web) ./integration/web

web-picture: VERSION = $(RELEASE)
web-picture: build ## docs/pictures/web.png anew, from daemons at work (chromium)
	ACPD_BUILT='$(CURDIR)/bin' $(GO) test -tags $(TAGS),web -count=1 ./integration/web -run '^TestPicture$$' -update-picture

agents: ## with the agent programs as they are, Claude Code, Codex and OpenCode, and a model that does as told; installs them in AGENTS (npm; root, or user namespaces)
	./integration/agents/install.sh '$(AGENTS)'
	ACPD_AGENTS='$(AGENTS)' $(GO) test -tags $(TAGS),agents -count=1 -timeout 30m -parallel 3 -v $(call run,agents) ./integration/agents

agents-newest: ## as agents, with the newest versions of the programs that npm has
	GO='$(GO)' TAGS='$(TAGS)' ./integration/agents/newest.sh '$(AGENTS)-newest'

dist: ## what is released, in dist/: archives for Linux and macOS, packages for Debian and Fedora, lists of their contents, the files of a container image, a script that installs, with BASE a formula for Homebrew, checksums
	cd packaging/dist && $(GO) run -trimpath . --source ../.. --out ../../dist --release $(RELEASE) --base '$(BASE)' $(DISTFLAGS)

packages: ## that the packages are built the same twice, install, upgrade, go and are purged in a Debian root: root; debootstrap (once, into DEBIAN), rpm, lintian, mandoc, curl, busybox-static
	cd packaging/dist && $(GO) test -tags $(TAGS) ./...
	./integration/packages/debian.sh '$(DEBIAN)'
	ACPD_DEBIAN='$(DEBIAN)' $(GO) test -tags $(TAGS),packages -count=1 -timeout 20m -v $(call run,packages) ./integration/packages

bench: ## acpd beside what else there is, and how its cost grows: a quarter of an hour, the machine to itself; BENCHFLAGS=-record keeps all values for make pictures
	cd bench && $(GO) run . beside $(BENCHFLAGS) && $(GO) run . growth $(BENCHFLAGS)

pgo: ## cmd/acpd/default.pgo anew, from the daemons of the benchmarks
	cd bench && $(GO) run . pgo

pictures: ## the plots and tables of docs/benchmarks.md from its records, and docs/pictures/film.svg from a run of the agent programs, which make programs installs in AGENTS; other pictures are drawn by hand
	cd bench && $(GO) run . draw
	ACPD_AGENTS='$(AGENTS)' $(GO) test -tags $(TAGS),agents -count=1 ./integration/agents -run '^TestFilm$$' -update-film

# Without the compiler's profile, which makes the first build half as long again.
demo: ## two daemons on this machine, and everything that they say
	@echo 'The demo takes ten seconds after the build.'
	@$(MAKE) --no-print-directory build BUILDFLAGS=-pgo=off
	./integration/demo.sh

install: build ## to PREFIX/bin (~/.local/bin)
	install -d '$(PREFIX)/bin'
	install bin/acpd bin/acpctl '$(PREFIX)/bin/'
	@case ":$$PATH:" in \
	*':$(PREFIX)/bin:'*) echo 'Now: acpctl up' ;; \
	*) printf '%s\n' '$(PREFIX)/bin is not in your PATH. Type this line, and add it to the profile of your shell:' '' '    export PATH='"'"'$(PREFIX)/bin'"'"':"$$PATH"' '' 'Then: acpctl up' ;; \
	esac
