package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/config"
)

// mask replaces what is the owner's alone in texts that go into a bundle: words that it was told
// of, each by the same placeholder everywhere, and whatever looks like a key, an id, an address, an
// invitation or a home directory.
type mask struct {
	words map[string]string // and their placeholders
	order []string          // the longest first
}

// newMask returns the mask for these words, and for the hosts in those that are HOST:PORT. Words of
// fewer than two bytes are left alone.
func newMask(words []string) *mask {
	m := &mask{words: make(map[string]string)}
	for _, w := range words {
		if host, _, err := net.SplitHostPort(w); err == nil { // as an error of the resolver names it
			words = append(words, host)
		}
	}
	for _, w := range words {
		if _, known := m.words[w]; !known && len(w) > 1 {
			m.words[w] = fmt.Sprintf("<masked-%d>", len(m.words)+1)
			m.order = append(m.order, w)
		}
	}
	slices.SortStableFunc(m.order, func(a, b string) int { return len(b) - len(a) })
	return m
}

var (
	invitationText = regexp.MustCompile(`acp://\S+`)
	longHex        = regexp.MustCompile(`[0-9A-Fa-f]{16,}`)
	longToken      = regexp.MustCompile(`[A-Z2-7]{26,}|[A-Za-z0-9+_=-]{41,}`)
	addressText    = regexp.MustCompile(`[0-9A-Fa-f.:]*[.:][0-9A-Fa-f.:]*(%[A-Za-z0-9]+)?`)
	lookedUp       = regexp.MustCompile(`lookup [^\s:]+`) // an error of the resolver, also of a host that is set no more
	namedAddress   = regexp.MustCompile(`[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+:[0-9]{1,5}`)
	fileLine       = regexp.MustCompile(`\.(go|ya?ml|json):[0-9]+$`)
	userFolder     = regexp.MustCompile(`/(home|Users)/[^/\s"']+`)
)

// text returns a text without what is private.
func (m *mask) text(s string) string {
	for _, w := range m.order {
		s = replaceWord(s, w, m.words[w])
	}
	s = invitationText.ReplaceAllString(s, "<invitation>")
	s = userFolder.ReplaceAllString(s, "/<user>")
	s = longHex.ReplaceAllString(s, "<hex>")
	s = longToken.ReplaceAllString(s, "<token>")
	s = lookedUp.ReplaceAllString(s, "lookup <host>")
	s = namedAddress.ReplaceAllStringFunc(s, func(t string) string {
		if fileLine.MatchString(t) {
			return t
		}
		return "<address>"
	})
	return addressText.ReplaceAllStringFunc(s, func(t string) string {
		host := strings.Trim(t, ".:")
		if _, err := netip.ParseAddrPort(host); err == nil {
			return "<address>"
		}
		if ip, err := netip.ParseAddr(host); err == nil && (ip.Is4() || strings.Count(host, ":") > 1) {
			return "<address>"
		}
		return t
	})
}

// replaceWord replaces each place at which a word stands alone: no letter or digit is beside it.
func replaceWord(s, word, by string) string {
	var b strings.Builder
	for {
		at := strings.Index(s, word)
		if at < 0 {
			return b.String() + s
		}
		end := at + len(word)
		before, _ := utf8.DecodeLastRuneInString(s[:at])
		after, _ := utf8.DecodeRuneInString(s[end:])
		first, _ := utf8.DecodeRuneInString(word)
		last, _ := utf8.DecodeLastRuneInString(word)
		b.WriteString(s[:at])
		if isWordRune(before) && isWordRune(first) || isWordRune(after) && isWordRune(last) {
			b.WriteString(word)
		} else {
			b.WriteString(by)
		}
		s = s[end:]
	}
}

func isWordRune(r rune) bool {
	return r != utf8.RuneError && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r > 127)
}

// listOwnerWords returns the names of this user and this host.
func listOwnerWords() (words []string) {
	if host, err := os.Hostname(); err == nil {
		words = append(words, host)
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		words = append(words, u.Username)
	}
	if home, err := os.UserHomeDir(); err == nil && home != "/" {
		words = append(words, home)
	}
	return words
}

// settingNames has the name of every setting, and settingWords the words that settings take.
var (
	settingNames = listSettingNames(reflect.TypeFor[config.Config](), make(map[string]bool))
	settingWords = append([]string{"on", "off", "prefer", "require", "text", "json", "debug", "info", "warn", "error", "unattended", "*"}, config.ListPolicyKinds()...)
)

func listSettingNames(t reflect.Type, names map[string]bool) map[string]bool {
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Pointer:
		listSettingNames(t.Elem(), names)
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name != "" && name != "-" {
				names[name] = true
			}
			listSettingNames(t.Field(i).Type, names)
		}
	}
	return names
}

var (
	harmlessValue = regexp.MustCompile(`^-?[0-9]{1,10}(\.[0-9]{1,6})?(ns|us|ms|s|m|h)?$|^(true|false)$`)
	configToken   = regexp.MustCompile(`[^\s:{}\[\],"'#]{3,}`)
)

// maskConfig returns a configuration file with the names of settings, numbers, and the words that
// settings take, all else masked, and without its comments. It also returns what it has masked.
func maskConfig(data []byte) (masked []byte, words []string) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		for _, w := range configToken.FindAllString(string(data), -1) {
			if !isHarmless(w) && !settingNames[w] {
				words = append(words, w)
			}
		}
		return []byte("# It is no YAML, so nothing of it is here.\n"), words
	}
	var walk func(n *yaml.Node, isKey, isSecret bool)
	walk = func(n *yaml.Node, isKey, isSecret bool) {
		n.HeadComment, n.LineComment, n.FootComment, n.Anchor = "", "", "", ""
		if n.Kind == yaml.AliasNode {
			*n = yaml.Node{Kind: yaml.ScalarNode, Value: "<masked>"}
			return
		}
		if n.Kind == yaml.ScalarNode && n.Value != "" && (isSecret || !isHarmless(n.Value)) && !(isKey && settingNames[n.Value]) {
			words = append(words, n.Value)
			*n = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fmt.Sprintf("masked-%d", len(words))}
		}
		if n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
			n.Tag = ""
		}
		for i, c := range n.Content {
			isKey := n.Kind == yaml.MappingNode && i%2 == 0
			walk(c, isKey, !isKey && (isSecret || n.Kind == yaml.MappingNode && slices.Contains(secretSettings, n.Content[i-1].Value)))
		}
		if n.Kind != yaml.ScalarNode {
			n.Tag = ""
		}
	}
	walk(&doc, false, false)
	if doc.Kind == 0 {
		return nil, nil // an empty file
	}
	masked, err := yaml.Marshal(&doc)
	if err != nil {
		return []byte("# It cannot be written with what is masked.\n"), words
	}
	return masked, words
}

// secretSettings are those of which the bundle has no value, not even a number.
var secretSettings = []string{"token", "password", "user", "credentials", "command"}

func isHarmless(value string) bool {
	return harmlessValue.MatchString(value) || slices.Contains(settingWords, value)
}
