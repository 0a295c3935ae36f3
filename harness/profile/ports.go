package profile

import (
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// webAddress matches the beginning of a URL, to the end of its host and port.
var webAddress = regexp.MustCompile(`\b(?i:https?|wss?|socks5h?)://[^\s/"'\\<>]+`)

// defaultPorts are those of URLs that name none, by scheme.
var defaultPorts = map[string]uint16{"http": 80, "ws": 80, "https": 443, "wss": 443, "socks5": 1080, "socks5h": 1080}

// findPorts returns the TCP ports at which runs find what the owner gives them: the model and proxies.
// It finds them in URLs of the owner's arguments and of the variables that the profile passes on.
func (p *Profile) findPorts() (ports []uint16) {
	texts := slices.Clone(p.More)
	for _, name := range p.Pass {
		value := os.Getenv(name)
		upper := strings.ToUpper(name)
		if strings.HasSuffix(upper, "_PROXY") && !strings.HasSuffix(upper, "NO_PROXY") && !strings.Contains(value, "://") {
			value = "http://" + value // programs accept a proxy that is named only by host and port
		}
		texts = append(texts, value)
	}
	for _, text := range texts {
		for _, found := range webAddress.FindAllString(text, -1) {
			u, err := url.Parse(found)
			if err != nil {
				continue
			}
			port := defaultPorts[strings.ToLower(u.Scheme)]
			if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
				port = uint16(n)
			}
			ports = append(ports, port)
		}
	}
	return ports
}
