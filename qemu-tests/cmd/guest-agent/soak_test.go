package main

import (
	"errors"
	"testing"
)

func TestLossPercent(t *testing.T) {
	for out, want := range map[string]int{
		"10 packets transmitted, 10 packets received, 0% packet loss\n": 0,
		"10 packets transmitted, 7 packets received, 30% packet loss\n": 30,
		"ping: bad address": 100,
	} {
		if got := lossPercent(out); got != want {
			t.Errorf("%q: %d", out, got)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(errors.Join(errors.New("a  b"), errors.New("c"))); got != "a b c" {
		t.Errorf("%q", got)
	}
}
