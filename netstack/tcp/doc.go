// Package tcp translates between the guest's TCP and the TCP sockets of the
// host. There is no TCP stack between the two stacks; this text says what there
// is instead. "We" are the translator: towards the guest we look like the remote
// end of each connection.
//
// # Who owns which byte
//
// A byte from the host's peer stays in the receive queue of the host's kernel
// until the guest has acknowledged it. We copy it into a buffer of the guest by
// peeking ([hostsock.Calls.Peek]), and drop it from the queue when it is
// acknowledged, in amounts worth a system call. There is no send buffer of
// ours: to send again is to peek again.
//
// A byte from the guest belongs to the guest until the host's socket has taken
// it; only then do we acknowledge it (RFC 9293 section 3.4). What a socket did not
// take of a segment that lay within the window is kept in a stash, not dropped
// and begged for again. A guest that sends again what is in the stash is told that
// we have it: otherwise it would end a connection whose host only rests.
//
// # Sequence numbers
//
// Towards the guest: sndUna is the oldest byte not acknowledged, sndNxt the next
// to send, sndMax one past the highest ever sent. headSeq is the byte at the head
// of the kernel's queue and peekSeq the one the next peek returns:
// headSeq <= sndUna <= sndNxt <= sndMax, all modulo 2^32 (RFC 9293 section 3.4).
// From the guest: rcvNxt is the next byte expected, hostTaken one past the last
// byte that the host's socket took; rcvNxt - hostTaken bytes are in the stash.
// Segments that begin behind rcvNxt are answered at once. The ring reorders
// nothing, but a guest that bridges may; if SACK was agreed they are kept, within
// bounds, and reported (RFC 2018 section 4), else they are dropped, so that the
// guest's count of plain duplicates works. What overlaps is trimmed (section
// 3.10.7.4). The acknowledgement in a segment counts wherever its data lies.
//
// # States
//
// connecting: the guest's SYN is here, the host's connect is under way; nothing
// was answered. synReceived: the host is connected, SYN-ACK was sent. synSent:
// the host's peer connected to a forwarded port, SYN was sent. established: both
// are connected; four flags tell how far each direction has ended: hostEOF (the
// host's peer ended, its last byte is known), finSent (the guest was told),
// guestFin (the guest ended) and wroteEnd (the host was told). resetting: the
// flow is over and the guest has not been told yet, for want of a buffer.
// timeWait: all is told, the socket is closed, but our last acknowledgement may
// have been lost.
//
// The guest sees SYN-ACK only when the host's connect succeeded (section
// 3.10.7.1 gives RST for a port nobody listens on; here the host's answer is
// that answer): refused is RST, unreachable and prohibited are the ICMP message
// of that kind (RFC 1122 section 4.2.3.9), no answer is silence. A repeated SYN
// opens nothing; once connected it is answered by the same SYN-ACK. A SYN with
// another number begins anew while connecting, and is challenged later (RFC 5961
// section 4.2).
//
// A connection from the host is accepted before the guest was asked, since a
// listening socket offers no other way; if the guest refuses, it is reset. While
// the guest boots, SYN is repeated with back-off, and at once when the guest
// appears. Simultaneous open is not supported: the guest's SYN is ignored.
//
// # Windows
//
// Towards the guest we keep within the window it offers (section 3.8.6), with
// its scale (RFC 7323 section 2), and wait for room worth a segment unless
// nothing is in flight (RFC 1122 section 4.2.3.4). A segment is never more than
// half of the largest window offered, so that two fit. A window is the one of the
// newest segment (RFC 9293 section 3.10.7.4, SND.WL1). When it opens after it was
// closed, we go back to the last byte acknowledged. To the guest we offer what the
// host's socket can take: its send buffer less what is queued there, asked again
// when half of the last answer is used up. The right edge never moves back
// (section 3.8.6, "shrinking the window"), but for what the scale cuts off, and
// what was once offered is taken (RFC 7323 section 2.4). When it is used up, the
// socket is rearmed and its next writability becomes a window update (section
// 3.8.6.2.2: not before there is room for a good piece).
//
// # Acknowledgements to the guest
//
// Two segments' worth, a segment out of order, a FIN that answers ours, a probe: at
// once, at the end of the batch in which it came. Less, and a FIN: after
// ackDelayMs, unless a frame towards the guest carries it first, or the next
// segment makes it due (section 3.8.6.3, RFC 5681 section 4.2).
//
// # Loss towards the guest
//
// The ring loses nothing, but a guest may. The third duplicate acknowledgement
// sends again from sndUna (RFC 5681 section 3.2), but not a second time before
// all that was out then is acknowledged: the duplicates that follow answer what
// was sent twice (RFC 6582 section 3.2). Where the guest says what it holds (RFC
// 2018), only what is missing before that is sent again, each piece once; more than
// two segments held count as three duplicates (RFC 6675 section 4). A range that
// ends before the acknowledgement was received twice and means nothing (RFC 2883).
//
// The retransmission timer goes back to sndUna and forgets what the guest held. It
// sends one segment, and the rest when the guest answers (the loss window of RFC
// 5681 section 3.1): a guest that is short of memory drops whole frames, without a
// word. Its value is measured (RFC 6298) with a floor of 200 ms. A closed
// window is probed with one byte, with back-off, for as long as data waits and the
// guest answers (RFC 9293 section 3.8.6.1). There is no congestion window towards
// the guest: the path is one memory copy long, and the window bounds what is in
// flight.
//
// # Big frames
//
// A frame to the guest carries many segments of a flow at once, and more than the
// length field of IP can say if the guest takes such frames (BIG TCP, see big.go).
// No feature bit tells. The first big frame of each flow is a question: it is
// followed by a byte that the guest has long acknowledged, which is answered at
// once (RFC 1122 section 4.2.3.6); what the answer acknowledges tells whether the
// frame was taken. Where it was not, all is sent again in ordinary frames, within
// a round trip. While nothing is known of the guest, one flow asks. A guest that
// refuses is not asked again until its driver starts anew; IPv6 has two forms, tried
// in turn: a payload length of 0, and the jumbo payload option (RFC 2675). What is
// sent again always goes in ordinary frames. Big frames need mergeable buffers and
// SACK.
//
// # End and abort
//
// FIN takes its place in the frame queue behind the last byte (section 3.6). A FIN
// from the guest counts when every byte before it was taken, and becomes
// shutdown(SHUT_WR). A half-closed flow lives on. The socket is closed, its queue
// emptied first, when both FINs are acknowledged: an earlier close would turn
// into RST. If our acknowledgement of the guest's FIN may have been lost, the flow
// stays for two seconds to repeat it; a SYN in that time opens the next connection
// (section 3.10.7.4, RFC 6191).
//
// RST from the guest counts at exactly rcvNxt, or at what we acknowledged last,
// which is all that a guest knows that has forgotten the connection; elsewhere in
// the window it is answered by a challenge (RFC 5961 section 3.2). An abort on one
// side is an abort on the other: SO_LINGER 0 towards the host, RST towards the
// guest, behind the data that came before it, unless the guest's window stays
// closed for that. Segments of no flow get the RST of section 3.10.7.1.
//
// # Timers
//
// Each flow has one entry in a timer wheel, for the earliest of what it waits for:
// a delayed acknowledgement, a retransmission, a repeated SYN, a probe. Entries are
// moved lazily, so that no packet touches the wheel. An idle flow is probed after
// two hours (RFC 1122 section 4.2.3.6), one of which a direction has ended after two
// minutes, so that flows of a guest that is gone do not stay; nine probes without
// answer, 75 s apart, end it (RFC 5382 REQ-5: 2 h 4 min and 4 min at least). Any
// segment of the guest counts as activity. Nothing is counted against a guest that
// has no ring, or no buffers. Where the guest itself probes, the host's kernel is
// asked to probe its peer as well.
//
// # Limits
//
// Flows are bounded, and so are those whose host connect is under way: a SYN
// beyond the first bound is refused by RST. Beyond the second, a connect that has
// been under way for a second makes room, so that destinations that never answer
// do not crowd out others; if there is none, the SYN is ignored. Without descriptors a
// SYN is refused; listeners wait and try again. The stash is bounded for the whole
// worker; what exceeds it has to be sent again.
//
// # Not done
//
// Urgent data travels in line, without its mark (RFC 6093 section 6). ECN bits
// and unknown options are accepted and ignored. Timestamps are not offered to the
// guest.
package tcp
