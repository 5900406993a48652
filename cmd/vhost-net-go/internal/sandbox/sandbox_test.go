package sandbox

import (
	"errors"
	"strings"
	"testing"
)

// TestModes: what a missing layer means in each mode, and that all layers are
// tried.
func TestModes(t *testing.T) {
	broken := errors.New("not in this kernel")
	for _, c := range []struct {
		mode           Mode
		missing, wrong bool
		entered        string
	}{
		{Auto, true, false, "a b c"},
		{Require, false, true, "a b c"},
		{Off, false, false, ""},
	} {
		var entered []string
		step := func(name string, err error) layer {
			return layer{name, func(Config) error {
				entered = append(entered, name)
				return err
			}}
		}
		missing, err := enter(Config{Mode: c.mode}, []layer{step("a", nil), step("b", broken), step("c", nil)})
		if (len(missing) > 0) != c.missing || (err != nil) != c.wrong || strings.Join(entered, " ") != c.entered {
			t.Errorf("mode %d: missing %v, error %v, entered %v", c.mode, missing, err, entered)
		}
		for _, err := range append(missing, err) {
			if err != nil && !strings.Contains(err.Error(), "b: not in this kernel") {
				t.Errorf("mode %d: %q does not name the layer and the cause", c.mode, err)
			}
		}
	}
}
