# Measurements with a synthetic guest, for the Makefile at the top, which has
# the target build. They need root or the right to make namespaces.
#
# passt is measured as well if there is one: PASST=PATH [PASST_ROOT=ROOT FILE
# SYSTEM THAT IT LIES IN], or what the guest tests have unpacked. ARGS are passed
# on; ARGS=-h tells what there is.

GO ?= go

.PHONY: bench-syscalls bench-flows bench-synth bench-flush bench-quick bench-docs bench-bigtcp

# System calls for each operation, and what 10 000 idle connections cost; fails
# if a limit is missed.
bench-syscalls: build
	@sh qemu-tests/needs.sh /usr/bin/strace=strace /sbin/ip=iproute2
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench-syscalls ./cmd/bench-syscalls
	bin/bench-syscalls -backend bin/vhost-net-go $(ARGS)

# 100 000 connections.
bench-flows: build
	@sh qemu-tests/needs.sh /sbin/ip=iproute2
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench-flows ./cmd/bench-flows
	bin/bench-flows -backend bin/vhost-net-go $(ARGS)

# Throughput and rates for each second of the backend's CPU time.
bench-synth: build
	@sh qemu-tests/needs.sh /sbin/ip=iproute2
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench-synth ./cmd/bench-synth
	bin/bench-synth -backend bin/vhost-net-go -o bin/bench-synth.json $(ARGS)

# How many frames are gathered at most, in each direction: a table in Markdown.
bench-flush: build
	@sh qemu-tests/needs.sh /sbin/ip=iproute2
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench-synth ./cmd/bench-synth
	bin/bench-synth -backend bin/vhost-net-go -flush 1,4,16,64,256 -rows '^tcp (guest|host) to|^udp .*1472' $(ARGS)

# A few rows of make bench, in less than three minutes.
bench-quick: needs-run build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench ./cmd/bench
	VHOST_NET_GO_BACKEND=bin/vhost-net-go bin/bench -runs 3 -seconds 1 -guests uml-7.2 -peers passt -o bin/bench-quick.json \
		-rows '^(TCP (guest|host) to (guest|host), 1 stream|TCP_RR 1 byte|UDP_RR|UDP .* 1472 bytes|memory.*|start-up.*)$$' $(ARGS)

# The table and the plot of docs/performance.md, out of bin/bench.json alone.
bench-docs:
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench ./cmd/bench
	bin/bench -runs 0 -o bin/bench.json -docs docs/performance.md

# Frames above 64 KiB to the guest, off and on; adds to bin/bench-bigtcp.json.
bench-bigtcp: build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench-bigtcp ./cmd/bench-bigtcp
	VHOST_NET_GO_BACKEND=bin/vhost-net-go bin/bench-bigtcp $(ARGS)
