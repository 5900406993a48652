// Package netstack turns the Ethernet frames of a guest into traffic of ordinary
// sockets of the host, and back.
//
// A [Worker] serves one queue pair: the ring on which the guest transmits and
// the ring on which it receives. It owns everything that it needs (its epoll,
// its flows, its timers, its frame queue, its scratch) and runs on one thread,
// so that no packet meets a lock. It knows nothing of vhost-user: whoever owns
// the rings hands them over while the worker is parked.
//
// A [Group] has the workers of a device with several queue pairs; see
// docs/architecture.md for who owns what then.
//
// # A worker's turn
//
//  1. Wait for kicks, sockets, timers.
//  2. Drain the transmit ring in batches: each frame's headers are copied once,
//     checked, and its protocol takes it ([tcp], [udp], [icmp]; ARP, neighbour
//     discovery and DHCP are answered here). At the end of a batch the protocols
//     send what they gathered straight from guest memory, then the buffers go
//     back to the guest in one update.
//  3. Sockets with data fill buffers of the receive ring.
//  4. What was made for the guest becomes visible in one update.
//
// # Where things are
//
//	header      layouts, parsing, checksums
//	framequeue  the one ordered queue towards the guest
//	link        what protocols share; the contract between worker and protocol
//	tcp udp icmp reassembly
//	arp ndp dhcp4 dhcp6 searchlist   the services a guest expects on its link
//	addrmap forward            addresses between both sides; forwarded ports
//	flowtable timerwheel       data structures
//	hostsock poller            system calls
package netstack
