// Package wire is the vhost-user protocol as bytes: message identifiers,
// feature bits, payload layouts, and messages over a Unix stream socket with
// the file descriptors that travel beside them. It knows nothing about what a
// message means; both the backend (package vhostuser) and the frontend used in
// tests (package vutest) stand on it.
//
// A message is a header of three 32-bit words in host byte order (request,
// flags, payload size in bytes) and the payload. The field names follow the
// specification, docs/interop/vhost-user.rst in the QEMU sources.
package wire
