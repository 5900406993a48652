package main

import (
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
)

// opening is how many connections are opened at a time.
const opening = 16

// idle opens n connections, calls opened, and keeps them until end is closed.
func idle(address string, n int, opened func(), end <-chan struct{}) error {
	var g errgroup.Group
	g.SetLimit(opening)
	conns := make([]net.Conn, n)
	for i := range conns {
		g.Go(func() (err error) {
			if conns[i], err = net.DialTimeout("tcp", address, 20*time.Second); err != nil {
				err = fmt.Errorf("connection %d: %w", i, err)
			}
			return err
		})
	}
	err := g.Wait()
	if err == nil {
		opened()
		<-end
	}
	for _, c := range conns {
		if c != nil {
			c.Close()
		}
	}
	return err
}

// hold takes connections at a port and keeps each until its client closes it.
func hold(port string) error {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	return holdAt(l)
}

func holdAt(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}()
	}
}
