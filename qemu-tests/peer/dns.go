package peer

import (
	"net"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// answer responds to one DNS query; what it cannot parse it ignores.
func (p *Peer) answer(c net.PacketConn, query []byte, from net.Addr) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return
	}
	question, err := parser.Question()
	if err != nil {
		return
	}
	response, err := p.response(header, question)
	if err != nil {
		return
	}
	_, _ = c.WriteTo(response, from)
}

func (p *Peer) response(query dnsmessage.Header, q dnsmessage.Question) ([]byte, error) {
	ips := p.names[strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")]
	header := dnsmessage.Header{ID: query.ID, Response: true, Authoritative: true, RecursionDesired: query.RecursionDesired, RecursionAvailable: true}
	if ips == nil {
		header.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, header)
	if err := b.StartQuestions(); err != nil {
		return nil, err
	}
	if err := b.Question(q); err != nil {
		return nil, err
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	for _, ip := range ips {
		if err := addAnswer(&b, q, ip); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// addAnswer adds ip if it is of the family that q asks for.
func addAnswer(b *dnsmessage.Builder, q dnsmessage.Question, ip net.IP) error {
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60}
	ip4 := ip.To4()
	switch {
	case q.Type == dnsmessage.TypeA && ip4 != nil:
		return b.AResource(h, dnsmessage.AResource{A: [4]byte(ip4)})
	case q.Type == dnsmessage.TypeAAAA && ip4 == nil:
		return b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: [16]byte(ip)})
	}
	return nil
}
