package forward

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// MaxRules is how many rules one specification may hold. It only guards
// against absurd input.
const MaxRules = 1024

// maxInterfaceName is IFNAMSIZ-1, the longest interface name in bytes
// (linux/if.h).
const maxInterfaceName = 15

// The rules a specification can break; part of the error's text.
var (
	errPort        = errors.New("a port is a number from 1 to 65535")
	errPortZero    = errors.New("port 0 is none")
	errAnyPort     = errors.New("port 0 (any free port of the host) stands alone and needs the guest's port, as in 0:22")
	errRangeOrder  = errors.New("a range runs from its lower to its higher port")
	errRangeLength = errors.New("both ranges must hold the same number of ports")
	errRangeEnd    = errors.New("the target range passes port 65535")
	errInterface   = errors.New("an interface name has 1 to 15 characters, without spaces and slashes")
	errAddress     = errors.New("not an IPv4 or IPv6 address")
	errMulticast   = errors.New("multicast addresses cannot be forwarded")
	errTargetAny   = errors.New("the target must be one particular address")
	errFamily      = errors.New("the target must be of the listening address' family, so a listening address is needed with it")
	errEmpty       = errors.New("at least one port is needed")
	errTooMany     = fmt.Errorf("more than %d ports or ranges", MaxRules)
	errAuto        = errors.New("\"auto\" follows the ports of a container; for a virtual machine list them, or \"all\"")
	errAllTarget   = errors.New("\"all\" keeps the port numbers: it takes an address as its target, and no ports")
	errExclude     = errors.New("an exclusion is ~PORT or ~PORT-PORT, without a target")
	errNothingLeft = errors.New("the exclusions leave no port")
)

// None is the specification that asks for no forwarding at all.
const None = "none"

// allPorts asks for every port that can be had.
const allPorts = "all"

// ParseSpec reads one command-line specification; the package comment has the
// notation. "none" gives no rules. The error quotes the part that is wrong and
// says the rule it breaks. Conflicts between rules are left to Check.
func ParseSpec(proto Proto, text string) ([]Rule, error) {
	if text == None {
		return nil, nil
	}
	base, ports, err := splitListen(text)
	if err != nil {
		return nil, err
	}
	base.Proto = proto
	if ports == "" {
		return nil, partError(text, errEmpty)
	}
	if strings.Count(ports, ",") >= MaxRules {
		return nil, errTooMany
	}
	var rules []Rule
	var except []Range
	for chunk := range strings.SplitSeq(ports, ",") {
		if x, ok := strings.CutPrefix(chunk, "~"); ok {
			first, last, err := parseRange(x)
			if err != nil {
				return nil, partError(chunk, fmt.Errorf("%w; %w", errExclude, err))
			}
			except = append(except, Range{first, last})
			continue
		}
		r, err := parseChunk(base, chunk)
		if err != nil {
			return nil, partError(chunk, err)
		}
		rules = append(rules, r)
	}
	if len(rules) == 0 {
		rules = append(rules, everything(base))
	}
	if rules = exclude(rules, except); len(rules) == 0 {
		return nil, partError(text, errNothingLeft)
	}
	return rules, nil
}

// everything asks for all ports, as far as they can be had.
func everything(base Rule) Rule {
	base.FirstPort, base.LastPort, base.TargetFirstPort = 1, 65535, 1
	base.BestEffort = true
	return base
}

// exclude takes ports out of the rules: those that name their ports are cut in
// pieces, so that a piece can still be met or fail as a whole.
func exclude(rules []Rule, except []Range) []Rule {
	var out []Rule
	for _, r := range rules {
		if r.BestEffort {
			if r = r.Without(except...); r.anyLeft() {
				out = append(out, r)
			}
			continue
		}
		pieces := []Rule{r}
		for _, x := range except {
			var next []Rule
			for _, p := range pieces {
				next = append(next, p.cut(x)...)
			}
			pieces = next
		}
		out = append(out, pieces...)
	}
	return out
}

func (r Rule) anyLeft() bool {
	for range r.HostPorts() {
		return true
	}
	return false
}

// cut returns what is left of a rule on both sides of x.
func (r Rule) cut(x Range) (left []Rule) {
	if r.AnyPort() || x.Last < r.FirstPort || r.LastPort < x.First {
		return []Rule{r}
	}
	if r.FirstPort < x.First {
		below := r
		below.LastPort = x.First - 1
		left = append(left, below)
	}
	if x.Last < r.LastPort {
		above := r
		above.TargetFirstPort = r.TargetPort(x.Last + 1)
		above.FirstPort = x.Last + 1
		left = append(left, above)
	}
	return left
}

func partError(part string, err error) error {
	return fmt.Errorf("%q: %w", part, err)
}

// splitListen takes the LISTEN/ part off. A slash may also belong to a target
// ("80:10.0.0.1/8080"), so what stands before it counts as LISTEN unless it
// starts like a port with a colon and is no address.
func splitListen(text string) (Rule, string, error) {
	before, after, found := strings.Cut(text, "/")
	if !found {
		return Rule{}, text, nil
	}
	r, err := parseListen(before)
	if err == nil {
		return r, after, nil
	}
	if port, _, ok := strings.Cut(before, ":"); ok && !strings.HasPrefix(before, "[") {
		if first, _, perr := parseRange(port); perr == nil && first != 0 || port == "0" || port == allPorts {
			return Rule{}, text, nil
		}
	}
	return Rule{}, "", partError(before, err)
}

func parseListen(text string) (Rule, error) {
	addrText, ifName, hasIf := strings.Cut(text, "%")
	var r Rule
	if hasIf {
		// The zone of a bracketed address ends with the bracket.
		if strings.HasPrefix(addrText, "[") && strings.HasSuffix(ifName, "]") {
			addrText, ifName = addrText+"]", strings.TrimSuffix(ifName, "]")
		}
		if !ValidInterface(ifName) {
			return Rule{}, errInterface
		}
		r.Interface = ifName
	}
	if addrText == "*" || (addrText == "" && hasIf) {
		return r, nil
	}
	addr, err := parseAddr(addrText)
	if err != nil {
		return Rule{}, err
	}
	r.ListenAddr = addr
	return r, nil
}

func parseChunk(r Rule, chunk string) (Rule, error) {
	switch {
	case chunk == "":
		return Rule{}, errEmpty
	case chunk == "auto":
		return Rule{}, errAuto
	}
	host, target, hasTarget := strings.Cut(chunk, ":")
	var err error
	switch host {
	case allPorts:
		return parseAll(r, target, hasTarget)
	case "0":
		if !hasTarget {
			return Rule{}, errAnyPort
		}
	default:
		if r.FirstPort, r.LastPort, err = parseRange(host); err != nil {
			return Rule{}, err
		}
	}
	r.TargetFirstPort = r.FirstPort
	if !hasTarget {
		return r, nil
	}
	ports := target
	if strings.ContainsAny(target, ".:[/") {
		var addrText string
		addrText, ports, _ = strings.Cut(target, "/")
		if r.TargetAddr, err = parseTarget(addrText, r.ListenAddr); err != nil {
			return Rule{}, err
		}
		if addrText == target {
			if r.AnyPort() {
				return Rule{}, errAnyPort
			}
			return r, nil
		}
	}
	return withTargetPorts(r, ports)
}

// parseAll reads what stands behind "all": nothing, or a target address.
func parseAll(r Rule, target string, hasTarget bool) (Rule, error) {
	r = everything(r)
	if !hasTarget {
		return r, nil
	}
	if !strings.ContainsAny(target, ".:[") || strings.ContainsRune(target, '/') {
		return Rule{}, errAllTarget
	}
	var err error
	r.TargetAddr, err = parseTarget(target, r.ListenAddr)
	return r, err
}

// withTargetPorts sets the target's ports: one port, which then is the first
// of as many as the host range has, or a range of the same length.
func withTargetPorts(r Rule, text string) (Rule, error) {
	first, last, err := parseRange(text)
	if err != nil {
		return Rule{}, err
	}
	if strings.Contains(text, "-") || r.Ports() > 1 {
		if int(last)-int(first)+1 != r.Ports() {
			return Rule{}, errRangeLength
		}
	}
	if int(first)+r.Ports()-1 > 65535 {
		return Rule{}, errRangeEnd
	}
	r.TargetFirstPort = first
	return r, nil
}

func parseTarget(text string, listen netip.Addr) (netip.Addr, error) {
	addr, err := parseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, err
	case addr.IsUnspecified():
		return netip.Addr{}, errTargetAny
	case !listen.IsValid() || listen.Is4() != addr.Is4():
		return netip.Addr{}, errFamily
	}
	return addr, nil
}

func parseAddr(text string) (netip.Addr, error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(inner, ":") {
			return netip.Addr{}, errAddress
		}
		text = inner
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, errAddress
	}
	addr = addr.Unmap()
	if addr.IsMulticast() {
		return netip.Addr{}, errMulticast
	}
	return addr, nil
}

func parseRange(text string) (first, last uint16, err error) {
	lo, hi, isRange := strings.Cut(text, "-")
	if first, err = parsePort(lo); err != nil {
		return 0, 0, err
	}
	if !isRange {
		return first, first, nil
	}
	if last, err = parsePort(hi); err != nil {
		return 0, 0, err
	}
	if last < first {
		return 0, 0, errRangeOrder
	}
	return first, last, nil
}

func parsePort(text string) (uint16, error) {
	if strings.HasPrefix(text, "+") {
		return 0, errPort
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, errPort
	}
	if n == 0 {
		return 0, errPortZero
	}
	return uint16(n), nil
}

// ValidInterface reports whether name can be the name of a Linux network
// interface.
func ValidInterface(name string) bool {
	return name != "" && len(name) <= maxInterfaceName &&
		name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r")
}
