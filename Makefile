# make help tells what there is.

GO      ?= go
FUZZTIME ?= 30s
RUNS    ?= 5

GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# The module of the guest tests has dependencies that the daemon must not have.
MODULES = . qemu-tests

# A checkout that belongs to somebody else has no version to stamp.
VCS := $(shell git log -1 >/dev/null 2>&1 || echo -buildvcs=false)

# What is missing on a fresh Debian, as FILE=PACKAGE.
CA_CERTIFICATES = /etc/ssl/certs/ca-certificates.crt=ca-certificates
KEYRING         = /usr/share/keyrings/debian-archive-trixie-automatic.gpg=debian-archive-keyring
CHECKERS        = /usr/bin/mandoc=mandoc /usr/bin/zsh=zsh /usr/bin/fish=fish /sbin/apparmor_parser=apparmor /usr/bin/systemd-analyze=systemd
C_COMPILER      = /usr/bin/gcc=gcc /usr/include/stdio.h=libc6-dev

# Where "make install" puts things, below DESTDIR.
PREFIX  ?= /usr/local
DESTDIR ?=

# A package's version: a tag, or how old and which the commit is.
VERSION ?= $(shell { git describe --tags --exact-match 2>/dev/null || git log -1 --date=format:%Y%m%d%H%M --format=0.0~git%cd.%h 2>/dev/null || echo 0.0; } | sed s/^v//)
# The date of what is generated.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || date +%s)

.PHONY: help build docs install deb run test lint unit gvguest fuzz guests bench clean needs-run needs-test

help:
	@echo 'make build    the daemon, as bin/vhost-net-go'
	@echo 'make install  the same with manual page, completions, units; PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make deb      a Debian package of it in bin/'
	@echo 'make run      boot a VM on it, show what the VM sees of the network, give its console'
	@echo 'make test     lint, unit, guests; with CI=true nothing may be skipped, and fuzz too'
	@echo 'make lint     gofumpt, vet, staticcheck, also for arm64'
	@echo 'make unit     unit tests with the race detector'
	@echo 'make guests   real guests: QEMU, User Mode Linux, libvirt, DPDK; TESTS=REGEXP for some of them'
	@echo 'make fuzz     every fuzz target for FUZZTIME=$(FUZZTIME)'
	@echo 'make bench    a table against passt, RUNS=$(RUNS) of each; JSON in bin/bench.json'
	@echo 'make gvguest  the in-process guest at full length, with the race detector'
	@echo 'make bench-syscalls bench-flows bench-synth netem storm soak: measurements and long tests, see qemu-tests/*.mk'
	@echo 'make clean    remove what was built here'
	@echo 'Guests are made from Debian packages, once, in $${VHOST_NET_GO_CACHE:-~/.cache/vhost-net-go} (2 GB).'

build:
	CGO_ENABLED=0 $(GO) build -trimpath $(VCS) -o bin/vhost-net-go ./cmd/vhost-net-go

# The manual page and the completions come from the table of options.
docs:
	$(GO) run $(VCS) ./cmd/vhost-net-go/internal/manual/generate -version '$(VERSION)' -epoch $(SOURCE_DATE_EPOCH) bin/doc

install: build docs
	sh cmd/vhost-net-go/dist/install.sh bin/vhost-net-go bin/doc '$(DESTDIR)' '$(PREFIX)'

deb: build docs
	sh cmd/vhost-net-go/dist/deb.sh bin/vhost-net-go bin/doc '$(VERSION)' bin

needs-run:
	@sh qemu-tests/needs.sh $(CA_CERTIFICATES) $(KEYRING)

needs-test:
	@sh qemu-tests/needs.sh $(CA_CERTIFICATES) $(KEYRING) $(C_COMPILER) $(CHECKERS)

# Built first, so that the VM's console has the terminal to itself.
run: needs-run build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/run-vm ./cmd/run-vm
	@VHOST_NET_GO_BACKEND=bin/vhost-net-go bin/run-vm

test: needs-test lint unit $(if $(filter true,$(CI)),fuzz) guests

# gofumpt lists the files that it would change.
lint:
	$(foreach m,$(MODULES),$(call lint-module,$(m)))

define lint-module
	@echo 'lint $(1)'
	@cd $(1) && files=$$($(GO) run $(GOFUMPT) -l $(if $(filter .,$(1)),cmd internal netstack vhostuser virtqueue,.)) && \
		{ [ -z "$$files" ] || { echo "not formatted by gofumpt: $$files"; exit 1; }; }
	cd $(1) && $(GO) vet ./...
	cd $(1) && $(GO) run $(STATICCHECK) ./...
	cd $(1) && GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...

endef

# The guest tests are the package at the top of their module.
unit: needs-test
	$(GO) test -race -timeout 6m ./...
	cd qemu-tests && $(GO) test -race -timeout 6m $$($(GO) list ./... | grep -v -e '/qemu-tests$$' -e '/gvguest$$')
	cd qemu-tests && $(GO) test -short -timeout 8m ./gvguest

# The in-process guest at full length, with the race detector: half an hour.
gvguest: needs-test
	cd qemu-tests && $(GO) test -race -timeout 60m ./gvguest

fuzz:
	.ci/fuzz $(FUZZTIME)

guests: build
	cd qemu-tests && VHOST_NET_GO_BACKEND=../bin/vhost-net-go $(GO) test -count=1 -v -timeout 25m $(if $(TESTS),-run '$(TESTS)') .

# Each of guests, MTUs and rows can be measured by itself and added: make bench ARGS='-guests uml-7.2 -mtu 1500 -runs 1 -merge'.
bench: needs-run build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench ./cmd/bench
	VHOST_NET_GO_BACKEND=bin/vhost-net-go bin/bench -runs $(RUNS) -o bin/bench.json $(ARGS)

clean:
	rm -rf bin

include qemu-tests/bench.mk qemu-tests/long.mk
