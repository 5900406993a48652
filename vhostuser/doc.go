// Package vhostuser serves a virtio device to a virtual machine over the
// vhost-user protocol: it is the backend. A frontend (QEMU, User Mode Linux,
// DPDK's virtio-user, cloud-hypervisor) connects over a Unix socket, shares the
// guest's memory, and says where the device's rings lie and which descriptors
// signal them. What the device does with its rings is none of this package's
// business: it is given as a [Device].
//
// # Layers
//
// A message passes four layers, each of which knows nothing of the others:
// package wire turns bytes and descriptors into a message (frame); the table
// in table.go says what a request must look like, and what reply is due
// (validate, dispatch); methods of the session act on it (act).
//
// # Life of a connection
//
// [Server.Serve] takes frontends one after another from a [Source]: a listening
// socket, an inherited socket, or a socket that it connects to. One goroutine
// per connection owns all of its state; a second one only reads messages. When
// a connection ends, for whatever reason, its rings are stopped, its memory is
// unmapped, its descriptors are closed, and the next frontend is served.
//
// # Trust
//
// Neither the frontend nor the guest is trusted. A request that cannot be
// carried out is answered with a nonzero acknowledgement when the frontend
// asked for one (NEED_REPLY), otherwise the connection is closed with one log
// line: a frontend that does not learn of the failure would go on with a device
// that is not there. A ring that the guest has broken is stopped alone.
package vhostuser
