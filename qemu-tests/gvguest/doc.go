// Package gvguest is a guest in this process: gVisor's TCP/IP stack on a
// virtio-net driver of our own. It tests a backend with a real, independent
// implementation of TCP and without a virtual machine.
//
//	rings, err := gvguest.NewRings(cfg)       // memory, two rings, their eventfds
//	guest, err := gvguest.New(rings, gvguest.Config{...})
//	conn, err := guest.Dial(ctx, "192.0.2.1:80")
//
// The driver checks what it is given (vnet headers against the features,
// partial checksums, used elements) and can treat frames badly in both
// directions ([Impairment]). Whoever made the rings hands their other side to a
// worker, directly or by the vhost-user protocol.
package gvguest
