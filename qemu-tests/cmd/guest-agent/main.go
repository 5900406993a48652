// Command guest-agent is the tool of the guests: it moves test data over the guest's ordinary sockets and checks it. Each
// subcommand prints one line and fails with a reason.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

const usage = `usage: guest-agent COMMAND
  download URL            get URL, compare with the SHA-256 in its X-Sha256 header
  upload URL BYTES        send BYTES of test data to URL, compare the SHA-256 that it answers
  udp ADDRESS BYTES...    send one datagram of each size to an echo server, compare what returns
  tcp ADDRESS BYTES       send BYTES to a digest server, compare the SHA-256 that it answers
  serve PORT              be an echo server (UDP) and a digest server (TCP) at PORT, for ever
  soak HOSTS SECONDS N    keep N random streams to HOSTS (A,B) going, with datagrams and pings; check every byte
  soak-serve PORT         be the server of such traffic, for ever
  beat ADDRESS MS         send a numbered datagram every MS milliseconds, for ever
  idle ADDRESS N          open N connections to ADDRESS and keep them, for ever
  hold PORT               be a server that says nothing and keeps connections, for ever
  noipv6 PROGRAM ARG...   become PROGRAM, for which the kernel has no IPv6
`

func main() {
	start := time.Now()
	line, bytes, err := run(os.Args[1:])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if bytes > 0 {
		line = fmt.Sprintf("%d bytes at %.0f Mbit/s, %s", bytes, float64(bytes)*8/1e6/time.Since(start).Seconds(), line)
	}
	fmt.Println(line)
}

// run returns what to print and how many bytes were moved.
func run(args []string) (line string, bytes int64, err error) {
	if len(args) < 2 {
		return "", 0, fmt.Errorf("%s", usage)
	}
	if args[0] == "noipv6" {
		return "", 0, noIPv6(args[1:])
	}
	numbers := make([]int64, len(args)-2)
	for i, a := range args[2:] {
		if numbers[i], err = strconv.ParseInt(a, 10, 64); err != nil {
			return "", 0, err
		}
	}
	switch command := args[0]; {
	case command == "download":
		return download(args[1])
	case command == "upload" && len(numbers) == 1:
		return upload(args[1], numbers[0])
	case command == "tcp" && len(numbers) == 1:
		return tcpDigest(args[1], numbers[0])
	case command == "udp" && len(numbers) > 0:
		line, err = udpEcho(args[1], numbers)
	case command == "serve":
		err = serve(args[1])
	case command == "soak" && len(numbers) == 2:
		line, err = soak(args[1], numbers[0], numbers[1])
	case command == "soak-serve":
		err = soakServe(args[1])
	case command == "idle" && len(numbers) == 1:
		err = idle(args[1], int(numbers[0]), func() { fmt.Println("all are open") }, nil)
	case command == "hold":
		err = hold(args[1])
	case command == "beat" && len(numbers) == 1:
		err = beat(args[1], time.Duration(numbers[0])*time.Millisecond)
	default:
		err = fmt.Errorf("%s", usage)
	}
	return line, 0, err
}
