package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// flushPrograms are the backend at path with each of sizes for its batches and flushes, a list with commas.
func flushPrograms(path, sizes string) (out []stage.Program, err error) {
	for _, size := range strings.Split(sizes, ",") {
		if n, err := strconv.Atoi(size); err != nil || n < 1 {
			return nil, fmt.Errorf("flush: %q is not a number of frames", size)
		}
		p := stage.Ours(path)
		p.Name = size
		p.Args = append(slices.Clone(p.Args), "--tx-batch-frames", size, "--flush-frames", size)
		out = append(out, p)
	}
	return out, nil
}

// printFlush writes a line for each row, and a column for each size: the median, and the smallest and the largest value.
func (s *samples) printFlush(w io.Writer) {
	fmt.Fprint(w, "| MTU | row | unit |")
	for _, p := range s.programs {
		fmt.Fprintf(w, " %s frames |", p.Name)
	}
	fmt.Fprintf(w, "\n|--:|---|---|%s\n", strings.Repeat("--:|", len(s.programs)))
	for _, mtu := range s.mtus {
		for i, r := range s.rows {
			for _, perCPU := range []bool{false, true} {
				unit := r.unit
				if perCPU {
					unit = r.perCPU
				}
				fmt.Fprintf(w, "| %d | %s | %s |", mtu, r.name, unit)
				for _, p := range s.programs {
					v := s.values[key{p.Name, mtu, i, perCPU}]
					if len(v) == 0 {
						fmt.Fprint(w, " – |")
						continue
					}
					fmt.Fprintf(w, " %.4g (%.4g…%.4g) |", median(v), slices.Min(v), slices.Max(v))
				}
				fmt.Fprintln(w)
			}
		}
	}
}
