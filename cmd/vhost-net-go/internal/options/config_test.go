package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vm.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigFile(t *testing.T) {
	path := writeConfig(t, "# a comment\n\n  tcp-ports  2222:22\n--tcp-ports=80\nudp-ports = 53\none-off\nsearch a.example b.example\nmtu\t1400\r\nsocket-path /s")
	got, err := Parse([]string{"-m", "9000", "--config", path, "-s", "/last", "-t", "443"})
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.OneOff, want.SocketPath = true, "/last"
	want.MTU, want.MTUSet = 1400, true
	want.Search = []string{"a.example", "b.example"}
	want.Forwards = []forward.Rule{rule(forward.TCP, 2222, 22), rule(forward.TCP, 80, 80), rule(forward.TCP, 443, 443), rule(forward.UDP, 53, 53)}
	if d := cmp.Diff(want, got, cmpOptions); d != "" {
		t.Fatalf("options (-want +got):\n%s", d)
	}
}

func TestConfigFileRefuses(t *testing.T) {
	other := writeConfig(t, "one-off\n")
	for text, want := range map[string][]string{
		"one-off\nmtu 5\n":                  {":2: -m, --mtu \"5\"", "68 to 65521"},
		"# x\n\nnonsense 5":                 {":3: nonsense: there is no such option"},
		"t 80":                              {":1: t: there is no such option", "long names"},
		"mtu":                               {":1: -m, --mtu: a value is needed"},
		"one-off maybe":                     {":1: -1, --one-off \"maybe\": it takes no value"},
		"--":                                {":1: \"--\": not an option"},
		"config " + other:                   {":1: --config", "another one"},
		"conf-path x":                       {":1: -c, --conf-path", "not supported yet"},
		"a\x00b":                            {"no text file"},
		strings.Repeat("#\n", 1<<19) + "\n": {"larger than"},
	} {
		path := writeConfig(t, text)
		_, err := Parse([]string{"--config", path})
		if err == nil {
			t.Errorf("%.40q: accepted", text)
			continue
		}
		for _, w := range append(want, "--config", path) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.40q: error %q lacks %q", text, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: error of several lines: %q", text, err)
		}
	}
	if _, err := Parse([]string{"--config", "/no/such/file"}); err == nil || !strings.Contains(err.Error(), `--config "/no/such/file": no such file`) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// FuzzConfigFile looks for files that break the reader.
func FuzzConfigFile(f *testing.F) {
	f.Add("tcp-ports 80\n# c\none-off\n")
	f.Add("= 5\n--x=\n\tmtu\t=\t1500")
	f.Fuzz(func(t *testing.T, text string) {
		path := writeConfig(t, text)
		if _, err := Parse([]string{"--config", path}); err != nil && strings.Contains(strings.ReplaceAll(err.Error(), path, ""), "\n") {
			t.Errorf("%q: error of several lines: %q", text, err)
		}
	})
}
