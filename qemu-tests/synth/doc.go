// Package synth is a synthetic guest: a virtio-net driver with just enough
// Ethernet, ARP, IPv4, TCP and UDP to load a vhost-user backend to its limit
// while costing little itself. It takes the offloads that the backend offers,
// and works without them.
//
//	g, err := synth.Dial(path, synth.Config{MTU: 1500, Handler: h})
//	c, err := g.Connect(addr, port)
//	g.Send(c, 1<<30)
//	err = g.Run(time.Minute, func() bool { return done })
//
// # How it saves
//
// Payload to be sent lies in guest memory once, as a pattern of 64 KiB that each
// stream repeats ([Pattern]): a frame is a header and a reference into it, its
// checksum a difference of two sums made beforehand. Payload received is
// acknowledged by what its headers say, and not looked at. A connection is one
// small [Conn] of a slab. Nothing allocates after the start.
//
// # What its TCP does
//
// Handshake in both roles, MSS and window scale, both windows, one
// acknowledgement per connection and batch of frames, FIN and RST in both
// directions. There is neither congestion control nor a send buffer: a ring
// loses nothing, and what the backend says it did not take (duplicate
// acknowledgements), or never acknowledges, is sent again from there on. There is no
// TIME-WAIT; local ports are used in turn instead.
//
// # The loop
//
// [Guest.Poll] takes what arrived, calls the [Handler], and sends what is due.
// [Guest.Run] does it over and over and sleeps in between, as a driver does,
// with calls of the device enabled. All methods belong to one goroutine, and
// those of a Conn may be called from the Handler.
package synth
