// Package dist holds what goes onto a machine beside the program: units,
// profiles, the description for QEMU's tools, and the scripts behind "make
// install" and "make deb". There is no code in it but tests.
package dist
