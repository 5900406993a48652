// Command bench compares the project's backend with others in one table: the same real guests, the same programs in them, all
// backends in turn for each row. Values go to a JSON file, to which more runs can be added, and from that alone come the table
// and the plot of the documentation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// options are the command line's.
type options struct {
	runs, seconds  int
	rows           *regexp.Regexp
	guests, peers  []string
	mtus           []int
	merge, replace bool
	out, docs      string
}

func main() {
	sandbox.Main() // before flags: this program may be run again without them
	o, err := parse(flag.CommandLine, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(fs *flag.FlagSet, args []string) (o options, err error) {
	var rows, guests, peers, mtus string
	fs.IntVar(&o.runs, "runs", 5, "`N` runs of each row with each backend; medians count. 0 measures nothing")
	fs.IntVar(&o.seconds, "seconds", 2, "`N` seconds for each value")
	fs.StringVar(&rows, "rows", "", "`REGEXP` of the names of the measurements (-rows '^$' with -h lists them)")
	fs.StringVar(&guests, "guests", umlGuest+","+qemuGuest, "`LIST` of guests")
	fs.StringVar(&peers, "peers", strings.Join(peerNames, ","), "`LIST` of what to compare with")
	fs.StringVar(&mtus, "mtu", "1500,65520", "`LIST` of the guest's MTU, in bytes")
	fs.BoolVar(&o.merge, "merge", false, "add to the values in the JSON file; without it they are given up")
	fs.BoolVar(&o.replace, "replace", false, "as -merge, but give up the former values of the rows that are measured")
	fs.StringVar(&o.out, "o", "bin/bench.json", "`FILE` of the JSON")
	fs.StringVar(&o.docs, "docs", "", "`FILE` of Markdown that gets the table, between its markers, and beside it the plot")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 || o.runs < 0 || o.seconds < 1 {
		return o, errors.New("wrong arguments; -h tells which there are")
	}
	if o.rows, err = regexp.Compile(rows); err != nil {
		return o, fmt.Errorf("rows: %w", err)
	}
	if o.guests, err = list(guests, []string{umlGuest, qemuGuest}); err != nil {
		return o, fmt.Errorf("guests: %w", err)
	}
	if o.peers, err = list(peers, peerNames); err != nil {
		return o, fmt.Errorf("peers: %w", err)
	}
	for _, text := range strings.Split(mtus, ",") {
		mtu, err := strconv.Atoi(text)
		if err != nil || mtu < 1280 || mtu > 65520 {
			return o, fmt.Errorf("mtu: %q is not 1280 to 65520", text)
		}
		o.mtus = append(o.mtus, mtu)
	}
	return o, nil
}

// list splits text at its commas; each part must be one of known.
func list(text string, known []string) (out []string, err error) {
	for _, part := range strings.Split(text, ",") {
		ok := false
		for _, k := range known {
			ok = ok || k == part
		}
		if part != "" && !ok {
			return nil, fmt.Errorf("%q is none of %s", part, strings.Join(known, ", "))
		}
		if part != "" {
			out = append(out, part)
		}
	}
	return out, nil
}

func run(ctx context.Context, o options) error {
	doc := &document{}
	if o.merge || o.replace || o.runs == 0 {
		old, err := readDocument(o.out)
		if err != nil && (o.runs == 0 || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
		if err == nil {
			doc = old
		}
	}
	if o.runs > 0 {
		if err := measureAll(ctx, o, doc); err != nil {
			return err
		}
	}
	doc.printText(os.Stdout)
	if o.docs == "" {
		return nil
	}
	return doc.writeDocs(o.docs)
}

func measureAll(ctx context.Context, o options, doc *document) error {
	// Idle flows need descriptors, in the backends too. Who may not raise the limit sees these rows fail.
	limit := syscall.Rlimit{Cur: 1 << 17, Max: 1 << 17}
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	h, err := harness.Enter(ctx, logf)
	if err != nil {
		return err
	}
	defer h.Close()
	if h.Unable != nil {
		return h.Unable
	}
	b := &bench{o: o, h: h, doc: doc, gvproxy: findGvproxy(ctx, h, o)}
	return b.all(ctx)
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
