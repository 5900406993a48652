package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Measures of the plot, in pixels; its axis shows 1/8 to 8 times a peer.
const (
	plotLeft, plotWide, plotRight = 420, 560, 20
	rowHigh, titleHigh            = 18, 40
	octaves                       = 3
)

var peerColour = map[string]string{passt: "#1f6fb4", slirp: "#d2691e", gvisor: "#2e8b57"}

// better is how many times better than the peer we are: above 1 is better, whatever the unit.
func (l *line) better(peer string) (ratio, low, high float64, ok bool) {
	r, ok := l.Ratio[peer]
	if !ok {
		return 0, 0, 0, false
	}
	span := l.Range[peer]
	if l.Better == "lower" {
		return 1 / r, 1 / span[1], 1 / span[0], true
	}
	return r, span[0], span[1], true
}

// plotX is where a ratio is on the axis.
func plotX(ratio float64) float64 {
	l := min(max(math.Log2(ratio), -octaves), octaves)
	return plotLeft + plotWide*(l+octaves)/(2*octaves)
}

// rated is how many of the lines have a ratio.
func rated(lines []*line) (n int) {
	for _, l := range lines {
		if len(l.Ratio) > 0 {
			n++
		}
	}
	return n
}

// svg draws a dot for each ratio, with a line for its spread.
func (d *document) svg() string {
	var body strings.Builder
	y := 0
	for _, lines := range d.groups() {
		y += titleHigh
		fmt.Fprintf(&body, "<text x='10' y='%d' font-weight='bold'>guest %s, MTU %d</text>\n", y-12, html.EscapeString(lines[0].Guest), lines[0].MTU)
		top, high := y, rowHigh*rated(lines)
		for o := -octaves; o <= octaves; o++ {
			x, colour := plotX(math.Exp2(float64(o))), "#ddd"
			if o == 0 {
				colour = "#888"
			}
			fmt.Fprintf(&body, "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='%s'/><text x='%.1f' y='%d' text-anchor='middle' fill='#666'>%g</text>\n",
				x, x, top, top+high, colour, x, top-2, math.Exp2(float64(o)))
		}
		for _, l := range lines {
			if len(l.Ratio) == 0 {
				continue
			}
			fmt.Fprintf(&body, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", plotLeft-10, y+13, html.EscapeString(l.Name))
			for i, p := range peerNames {
				r, low, high, ok := l.better(p)
				if !ok {
					continue
				}
				at := float64(y) + rowHigh*(0.3+0.2*float64(i))
				fmt.Fprintf(&body, "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='%s'/><circle cx='%.1f' cy='%.1f' r='3' fill='%s'><title>%s: %.2f</title></circle>\n",
					plotX(low), plotX(high), at, at, peerColour[p], plotX(r), at, peerColour[p], p, r)
			}
			y += rowHigh
		}
	}
	y += titleHigh
	for i, p := range peerNames {
		fmt.Fprintf(&body, "<circle cx='%d' cy='%d' r='4' fill='%s'/><text x='%d' y='%d'>times better than %s</text>\n",
			20+280*i, y-16, peerColour[p], 30+280*i, y-12, p)
	}
	wide := plotLeft + plotWide + plotRight
	return fmt.Sprintf("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' font-family='sans-serif' font-size='12'>\n"+
		"<rect width='100%%' height='100%%' fill='white'/>\n%s</svg>\n", wide, y, wide, y, body.String())
}
