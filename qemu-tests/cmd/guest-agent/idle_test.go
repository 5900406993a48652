package main

import (
	"net"
	"testing"
	"time"
)

func TestIdleConnectionsAreHeld(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	held := make(chan error, 1)
	go func() { held <- holdAt(l) }()
	opened, end := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- idle(l.Addr().String(), 40, func() { close(opened) }, end) }()
	select {
	case <-opened:
	case <-time.After(10 * time.Second):
		t.Fatal("the connections do not open")
	}
	select {
	case err := <-done:
		t.Fatal("idle has ended before its time:", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	address := l.Addr().String()
	l.Close()
	<-held
	if err := idle(address, 2, func() { t.Error("opened without a server") }, end); err == nil {
		t.Error("no error without a server")
	}
}
