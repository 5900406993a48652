package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Markers in the Markdown file; what is between them belongs to this program.
const (
	beginMarker = "<!-- bench: begin -->"
	endMarker   = "<!-- bench: end -->"
)

// peers returns which peers a group of lines has, in the order of peerNames.
func peersOf(lines []*line) []string {
	return slices.DeleteFunc(slices.Clone(peerNames), func(p string) bool {
		return !slices.ContainsFunc(lines, func(l *line) bool { return l.Samples[p] != nil || l.Skipped[p] != "" })
	})
}

// groups splits the lines by guest and MTU.
func (d *document) groups() (out [][]*line) {
	for i, l := range d.Rows {
		if i == 0 || l.Guest != d.Rows[i-1].Guest || l.MTU != d.Rows[i-1].MTU {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], l)
	}
	return out
}

// cell is a peer's part of a line.
func (l *line) cell(peer string) string {
	switch r, ok := l.Ratio[peer]; {
	case ok:
		span := l.Range[peer]
		return fmt.Sprintf("%s, **%.2f** (%.2f…%.2f)%s", number(l.Peers[peer]), r, span[0], span[1], l.failed(peer))
	case l.Samples[peer] == nil && l.Skipped[peer] != "":
		return "SKIP: " + l.Skipped[peer]
	case l.Samples[peer] == nil:
		return "–"
	case l.Failed[peer] == len(l.Samples[peer]):
		return "FAILED"
	}
	return number(l.Peers[peer]) + l.failed(peer)
}

func (l *line) own() string {
	if n := len(l.Samples[ours]); n == 0 || n == l.Failed[ours] {
		return "FAILED"
	}
	return number(l.Ours) + l.failed(ours)
}

func (l *line) failed(backend string) string {
	if n := l.Failed[backend]; n > 0 {
		return fmt.Sprintf(" (%d of %d FAILED)", n, len(l.Samples[backend]))
	}
	return ""
}

// number has three digits that tell something at least.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// markdown writes the tables, with a link to the plot.
func (d *document) markdown(w io.Writer, plot string) {
	fmt.Fprintf(w, "Medians, and our ratio to each peer in bold, with the smallest and the largest ratio of values taken within seconds of each other. "+
		"Rows in s/GB, MiB, µs and ms are better lower. Measured %s.\n\n![ratios](%s)\n", d.Time.Format("2006-01-02"), plot)
	for _, lines := range d.groups() {
		peers := peersOf(lines)
		fmt.Fprintf(w, "\n### Guest %s, MTU %d\n\n| row | unit | runs | ours |", lines[0].Guest, lines[0].MTU)
		for _, p := range peers {
			fmt.Fprintf(w, " %s |", p)
		}
		fmt.Fprintf(w, "\n|---|---|--:|--:|%s\n", strings.Repeat("---|", len(peers)))
		for _, l := range lines {
			fmt.Fprintf(w, "| %s | %s | %d | %s |", l.Name, l.Unit, l.Runs, l.own())
			for _, p := range peers {
				fmt.Fprintf(w, " %s |", l.cell(p))
			}
			fmt.Fprintln(w)
		}
	}
}

func (d *document) printText(w io.Writer) {
	for _, lines := range d.groups() {
		peers := peersOf(lines)
		fmt.Fprintf(w, "\n%-66s %-7s %9s", fmt.Sprintf("guest %s, MTU %d", lines[0].Guest, lines[0].MTU), "", "ours")
		for _, p := range peers {
			fmt.Fprintf(w, "  %-32s", p)
		}
		fmt.Fprintln(w)
		for _, l := range lines {
			fmt.Fprintf(w, "%-66s %-7s %9s", l.Name, l.Unit, l.own())
			for _, p := range peers {
				fmt.Fprintf(w, "  %-32s", strings.ReplaceAll(l.cell(p), "**", ""))
			}
			fmt.Fprintln(w)
		}
	}
}

// writeDocs puts the tables between the markers of the Markdown file at path, and the plot beside it.
func (d *document) writeDocs(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	before, rest, ok := strings.Cut(string(text), beginMarker)
	_, after, ok2 := strings.Cut(rest, endMarker)
	if !ok || !ok2 {
		return fmt.Errorf("write the tables: %s has no %s and %s", path, beginMarker, endMarker)
	}
	plot := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + ".svg"
	var b strings.Builder
	b.WriteString(before + beginMarker + "\n")
	d.markdown(&b, plot)
	b.WriteString("\n" + endMarker + after)
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), plot), []byte(d.svg()), 0o644); err != nil {
		return fmt.Errorf("write the plot: %w", err)
	}
	return nil
}
