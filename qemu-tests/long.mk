# Long tests, and paths that are long. They need root (network namespaces, tap devices) and the guests of the guest tests.

.PHONY: netem storm soak

HOURS ?= 1
CYCLES ?= 200000

netem: build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/bench-netem ./cmd/bench-netem
	VHOST_NET_GO_BACKEND=bin/vhost-net-go bin/bench-netem -o bin/netem.json $(ARGS)

storm: build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/storm ./cmd/storm
	bin/storm -backend bin/vhost-net-go -cycles $(CYCLES) $(ARGS)

soak: build
	cd qemu-tests && $(GO) build $(VCS) -o ../bin/soak ./cmd/soak
	VHOST_NET_GO_BACKEND=bin/vhost-net-go bin/soak -hours $(HOURS) $(ARGS)
