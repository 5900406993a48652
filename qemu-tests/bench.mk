# Measurements with a synthetic guest. They need root (network namespaces);
# bench-syscalls needs strace. passt is measured beside vhost-net-go if there is
# one: PASST=path [PASST_ROOT=root file system], or what the guest tests have
# unpacked.

QEMU_TESTS := $(dir $(lastword $(MAKEFILE_LIST)))

.PHONY: bench-syscalls

bench-syscalls:
	CGO_ENABLED=0 go build -o bin/vhost-net-go ./cmd/vhost-net-go
	cd $(QEMU_TESTS) && go run ./cmd/bench-syscalls --backend $(CURDIR)/bin/vhost-net-go $(ARGS)
