package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/traffic"
)

const (
	// echoers is how many sockets send datagrams to each host.
	echoers = 4
	// maxReports is how many errors are worth the console.
	maxReports = 20
)

// soak makes random traffic to the servers of all hosts, a list with commas.
func soak(hosts string, seconds, streams int64) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second)
	defer cancel()
	var mu sync.Mutex
	var errs []error
	t := &traffic.Traffic{Report: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if errs = append(errs, err); len(errs) <= maxReports {
			fmt.Printf("\n@step soak-error fail %v\n", oneLine(err))
		}
	}}
	var servers []traffic.Dial
	var all sync.WaitGroup
	for _, host := range strings.Split(hosts, ",") {
		servers = append(servers, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(traffic.Port)))
		})
		for range echoers {
			conn, err := net.Dial("udp", net.JoinHostPort(host, strconv.Itoa(peer.EchoPort)))
			if err != nil {
				return "", err
			}
			defer conn.Close()
			all.Go(func() { t.Echo(ctx, conn) })
		}
		all.Go(func() { keepPinging(ctx, t, host) })
	}
	t.Run(ctx, int(streams), servers)
	all.Wait()
	if len(errs) > 0 {
		return "", fmt.Errorf("%d errors, the first: %w; %v", len(errs), errs[0], t)
	}
	return t.String(), nil
}

// keepPinging sends echo requests, ten with one identifier, of which one may be lost.
func keepPinging(ctx context.Context, t *traffic.Traffic, host string) {
	family := "-4"
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		family = "-6"
	}
	for ctx.Err() == nil {
		out, err := exec.Command("busybox", "ping", family, "-c", "10", "-i", "0.5", "-W", "5", host).CombinedOutput()
		if err == nil && lossPercent(string(out)) > 10 {
			err = errors.New("too many were lost")
		}
		if err != nil {
			t.Report(fmt.Errorf("ping %s: %w: %s", host, err, out))
		}
		time.Sleep(time.Second)
	}
}

var lossPattern = regexp.MustCompile(`(\d+)% packet loss`)

// lossPercent reads what ping says, and takes the worst for what it cannot read.
func lossPercent(out string) int {
	m := lossPattern.FindStringSubmatch(out)
	if m == nil {
		return 100
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// soakServe is the other end of the hosts' traffic, for ever.
func soakServe(port string) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":"+port)
	if err != nil {
		return err
	}
	c, err := net.ListenPacket("udp", ":"+port)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	go traffic.ServeEcho(c)
	t := &traffic.Traffic{Report: func(err error) { fmt.Printf("\n@step soak-serve fail %v\n", oneLine(err)) }}
	t.Serve(l)
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
