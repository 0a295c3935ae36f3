package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/yamldoc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

var (
	deskID      = identity.ID{0xde, 0x5c}
	laptopID    = identity.ID{0x1a, 0x70}
	fullExample = `
name: desk
listen: ":7117"
max_message: 65536
post_quantum: require
discovery: {mdns: off, include: [eth0, wlan0], exclude: [docker0]}
reach:
  relays:
  - {url: tls://nats.example.org, credentials: nats.creds}
  - {name: hub, url: "wss://hub.example.net:443/acp/", token: 0123, share: true}
  - {name: own, url: "nats://127.0.0.1:4222", user: acp, password: s3cret}
  proxy: {command: [print-proxy, --once]}
  stun: ["stun.example.org:3478", "[2001:db8::1]:3478"]
  direct: off
oacp: {home: ~/oacp}
peers:
  planner:
    addrs: ["planner.example:7117", "[2001:db8::1]:7117"]
  ` + deskID.String() + `: {addrs: [192.0.2.1:7117]}
limits:
  rate:
    - per_second: 0.5
    - {peer: planner, kind: query, per_second: 10, burst: 3}
policy:
  "*": {kinds: []}
  planner:
    kinds: [query, mail, channel]
    domains: [code, docs.api]
channels:
  listen: "[::1]:7118"
  keys: [{sha256: ` + keyHash + `, agent: planner}, {sha256: ` + keyHash + `}]
  open_to: [laptop, "*"]
  lenient: true
files: {max: 2147483648, ask: 1}
spending: 2.5
history: off
metrics: {listen: "0.0.0.0:7119", expose: true}
log: {level: debug}
`
	keyHash = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
)

func load(t *testing.T, text string) (*Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadConfig(path)
}

func TestOpenTo(t *testing.T) {
	other := identity.ID{7}
	for _, c := range []struct {
		open string
		want []bool // desk as "laptop", desk without a name, another as "laptop", another as "lamp"
	}{
		{"", []bool{false, false, false, false}},
		{"channels: {open_to: []}", []bool{false, false, false, false}},
		{"channels: {open_to: [laptop]}", []bool{true, false, true, false}},
		{"channels: {open_to: [" + deskID.String() + "]}", []bool{true, true, false, false}},
		{`channels: {open_to: ["*"]}`, []bool{true, true, true, true}},
	} {
		cfg, err := load(t, c.open)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range []identity.Peer{{ID: deskID, Name: "laptop"}, {ID: deskID}, {ID: other, Name: "laptop"}, {ID: other, Name: "lamp"}} {
			if got := cfg.Channels.IsOpenTo(p); got != c.want[i] {
				t.Errorf("%s: %v %q: %v", c.open, p.ID, p.Name, got)
			}
		}
	}
}

func TestLoad(t *testing.T) {
	c, err := load(t, fullExample)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Name:        "desk",
		Listen:      ":7117",
		MaxMessage:  64 << 10,
		PostQuantum: Require,
		Discovery:   Discovery{MDNS: Off, Include: []string{"eth0", "wlan0"}, Exclude: []string{"docker0"}},
		Reach: Reach{Relays: []Relay{
			{Name: "nats-example-org", URL: "tls://nats.example.org:4222", Credentials: "nats.creds"},
			{Name: "hub", URL: "wss://hub.example.net:443/acp", Token: "0123", Share: true},
			{Name: "own", URL: "nats://127.0.0.1:4222", User: "acp", Password: "s3cret"},
		}, Proxy: Proxy{Command: []string{"print-proxy", "--once"}}, STUN: []string{"stun.example.org:3478", "[2001:db8::1]:3478"}, Direct: Off},
		OACP: OACP{Home: "~/oacp"},
		Peers: map[string]Peer{
			"planner":       {Addrs: []string{"planner.example:7117", "[2001:db8::1]:7117"}},
			deskID.String(): {Addrs: []string{"192.0.2.1:7117"}},
		},
		Limits: Limits{Rate: []Rate{
			{Peer: "*", Kind: "*", PerSecond: 0.5, Burst: 1},
			{Peer: "planner", Kind: "query", PerSecond: 10, Burst: 3},
		}},
		Policy: Policy{
			"*":       {Kinds: []string{}},
			"planner": {Kinds: []string{"query", "mail", "channel"}, Domains: []string{"code", "docs.api"}},
		},
		Channels: Channels{
			Listen: "[::1]:7118", Keys: []ChannelKey{{SHA256: keyHash, Agent: "planner"}, {SHA256: keyHash}},
			OpenTo: []string{"laptop", "*"}, Lenient: true,
		},
		Files:    Files{Max: 2 << 30, Ask: 1},
		Spending: 2.5,
		History:  Off,
		Metrics:  Metrics{Listen: "0.0.0.0:7119", Expose: true},
		Log:      Log{Level: LevelDebug},
	}
	if line := c.Lines["limits.rate[1].burst"]; line != 1+strings.Count(fullExample[:strings.Index(fullExample, "burst")], "\n") {
		t.Errorf("limits.rate[1].burst is said to be in line %d", line)
	}
	c.Lines = nil
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestWhereMetricsAreServed(t *testing.T) {
	for listen, want := range map[string]string{":7119": "127.0.0.1:7119", "127.0.0.2:0": "127.0.0.2:0", "[::1]:7119": "[::1]:7119", "/run/acpd/metrics.sock": ""} {
		c, err := load(t, "metrics: {listen: \""+listen+"\"}")
		if err != nil {
			t.Errorf("%s: %v", listen, err)
		} else if c.Metrics.IsSocket() != (want == "") || want != "" && c.Metrics.Addr() != want {
			t.Errorf("%s: socket %v, address %s, want %s", listen, c.Metrics.IsSocket(), c.Metrics.Addr(), want)
		}
	}
}

func TestDefaults(t *testing.T) {
	missing, err := LoadConfig(filepath.Join(t.TempDir(), "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := identity.CheckName(missing.Name); err != nil {
		t.Errorf("the default name: %v", err)
	}
	want := &Config{Name: missing.Name, MaxMessage: 1 << 20, PostQuantum: Prefer, Discovery: Discovery{MDNS: On}, Reach: Reach{Proxy: Proxy{Text: "environment"}, Direct: On}, Log: Log{Level: LevelInfo},
		Files: Files{Max: 1 << 30, Ask: 64 << 20}, Spending: 5, History: On}
	missing.Lines = nil
	if !reflect.DeepEqual(missing, want) {
		t.Errorf("missing file: %+v", missing)
	}
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "--- # nothing\n", "{}", "\ufeff# nothing\n"} {
		c, err := load(t, text)
		if c != nil {
			c.Lines = nil
		}
		if err != nil || !reflect.DeepEqual(c, want) {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
	}
	if _, err := LoadConfig(t.TempDir()); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %v", err)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string][]string{
		"lisen: x":                                              {`1: unknown key "lisen": did you mean "listen"?`},
		"\n\nzzzzz: x":                                          {`3: unknown key "zzzzz": valid here: name, listen,`},
		"log: {levle: info}":                                    {`1: unknown key "log.levle": did you mean "log.level"?`},
		"limits:\n  rates: []":                                  {`2: unknown key "limits.rates": did you mean "limits.rate"?`},
		"limits:\n  rate:\n  - brust: 1":                        {`3: bad "limits.rate[0]": no rate`, `3: unknown key "limits.rate[0].brust": did you mean "limits.rate[0].burst"?`},
		"peers:\n  desk:\n    addr: [x:1]":                      {`2: bad "peers.desk": no addresses`, `3: unknown key "peers.desk.addr": did you mean "peers.desk.addrs"?`},
		"policy: {desk: {kind: [ping]}}":                        {`unknown key "policy.desk.kind": did you mean "policy.desk.kinds"?`, `empty rule`},
		"name: desk\nlog: {}\nname: laptop":                     {`3: "name" is set again, after line 1`},
		"policy:\n  desk: {kinds: [ping]}\n  desk: {kinds: []}": {`3: "policy.desk" is set again, after line 2`},
		"name:":                                         {`1: "name" has no value`},
		"policy:\n  desk:":                              {`2: "policy.desk" has no value`},
		"policy: {desk: {kinds: }}":                     {`"policy.desk.kinds" has no value`},
		"name: 7":                                       {`1: "name" must be text, not "7": put it in quotes`},
		"name: [desk]":                                  {`1: "name" must be text, not a list`},
		"name: Desk":                                    {`1: bad "name": name "Desk": use lower-case`},
		"name: \"\"":                                    {`1: bad "name"`},
		"listen: 7117":                                  {`1: "listen" must be text, not "7117": write host:port, like 0.0.0.0:7117`},
		"channels: {listen: 7118}":                      {`"channels.listen" must be text, not "7118": write host:port, like 127.0.0.1:7118`},
		"listen: desk":                                  {`1: bad "listen": "desk": use host:port`},
		"listen: \":70000\"":                            {`1: bad "listen": ":70000": use a port`},
		"listen: \"a b:1\"":                             {`1: bad "listen": address "a b:7117"`},
		"max_message: 1MiB":                             {`1: "max_message" must be a whole number, not "1MiB"`},
		"max_message: 65535":                            {`1: bad "max_message": 65535: use bytes from 65536 to 16777216`},
		"max_message: 16777217":                         {`1: bad "max_message"`},
		"max_message: 0":                                {`1: bad "max_message"`},
		"max_message: 0x1p70":                           {`1: "max_message"`},
		"max_message: 0300000":                          {`1: "max_message" is "0300000", which is another number to some readers of YAML: write decimal digits without a 0 in front`},
		"max_message: 0o300000":                         {`1: "max_message" is "0o300000"`},
		"max_message: 0x18000":                          {`1: "max_message" is "0x18000"`},
		"max_message: 65_536":                           {`1: "max_message" is "65_536"`},
		"agents: {uids: [01750]}":                       {`1: "agents.uids[0]" is "01750"`},
		"spending: 08":                                  {`1: "spending" is "08"`},
		"limits: {min_free: 010}":                       {`1: "limits.min_free" is "010"`},
		"post_quantum: requir":                          {`1: bad "post_quantum": "requir": did you mean "require"?`},
		"post_quantum: \"off\"":                         {`1: bad "post_quantum": "off": use prefer, require`},
		"log: {level: 3}":                               {`1: bad "log.level": "3": use debug, info, warn, error`},
		"log: text":                                     {`1: "log" must be settings, not "text"`},
		"peers: []":                                     {`1: "peers" must be settings, not a list`},
		"oacp: {home: oacp}":                            {`1: bad "oacp.home": "oacp": use a path that begins with / or ~/`},
		"discovery: {mdns: true}":                       {`1: bad "discovery.mdns": "true": use on, off`},
		"discovery: {mdns: offf}":                       {`bad "discovery.mdns": "offf": did you mean "off"?`},
		"discovery: {mdsn: off}":                        {`unknown key "discovery.mdsn": did you mean "discovery.mdns"?`},
		"discovery: {include: eth0}":                    {`"discovery.include" must be a list`},
		"discovery: {exclude: [eth0, \"\"]}":            {`bad "discovery.exclude[1]": "": use the name of an interface`},
		"peers: {Desk: {addrs: [desk.example:1]}}":      {`1: bad "peers.Desk": name "Desk"`},
		"peers: {\"*\": {addrs: [desk.example:1]}}":     {`1: bad "peers.*"`},
		"peers: {desk: {pipe: []}}":                     {`bad "peers.desk.pipe": an empty command`},
		"peers: {desk: {pipe: [\"\"]}}":                 {`bad "peers.desk.pipe": "": use the name of a program`},
		"peers: {desk: {pipe: [bin/ssh, desk]}}":        {`"bin/ssh": use the name of a program`},
		"peers: {desk: {pipe: [ssh desk acpctl pipe]}}": {`no shell divides it`},
		"peers: {desk: {pipe: ssh desk acpctl pipe}}":   {`peers.desk.pipe`},
		"peers: {desk: {pipe: [ssh, \"a\\0b\"]}}":       {`a command cannot contain a NUL`},
		"peers: {desk: {addrs: []}}":                    {`0 addresses: give 1 to 8`},
		"peers: {desk: {addrs: [desk.example]}}":        {`bad "peers.desk.addrs[0]": address "desk.example": use host:port`},
		"peers: {desk: {addrs: [" + strings.Repeat("desk.example:1,", 9) + "]}}": {`9 addresses: give 1 to 8`},
		"limits: {rate: {}}":                                                  {`"limits.rate" must be a list`},
		"limits: {rate: [1]}":                                                 {`"limits.rate[0]" must be settings`},
		"limits: {rate: [{per_second: 0}]}":                                   {`bad "limits.rate[0].per_second": 0: use a number above 0`},
		"agents: {claude: {turns: {hour: 1}}}":                                {`bad "agents.claude.turns.hour": 1: use a number from 2 to 2000`},
		"agents: {claude: {turns: {hour: 0}}}":                                {`bad "agents.claude.turns.hour": 0`},
		"agents: {\"*\": {turns: {hour: 1}}}":                                 {`bad "agents.*.turns.hour": 1`},
		"history: 1000":                                                       {`1: bad "history": "1000": use on, off`},
		"spending: 0.5":                                                       {`bad "spending": 0.5: use US dollars from 1 to 100000`},
		"files: {max: 0}":                                                     {`bad "files.max": 0: use bytes from 1 to 4294967296`},
		"files: {max: 4294967297}":                                            {`bad "files.max"`},
		"files: {ask: 0}":                                                     {`bad "files.ask": 0: use bytes from 1, which asks for every file`},
		"spending: .inf":                                                      {`bad "spending"`},
		"spending: [5]":                                                       {`"spending" must be a number`},
		"limits: {rate: [{per_second: .nan}]}":                                {`bad "limits.rate[0].per_second"`},
		"limits: {rate: [{per_second: 1, burst: 0}]}":                         {`bad "limits.rate[0].burst": 0`},
		"limits: {rate: [{per_second: 1, burst: 1.5}]}":                       {`"limits.rate[0].burst" must be a whole number`},
		"limits: {rate: [{per_second: 1, kind: qurey}]}":                      {`bad "limits.rate[0].kind": "qurey": did you mean "query"?`},
		"limits: {rate: [{per_second: 1, peer: Desk}]}":                       {`bad "limits.rate[0].peer"`},
		"limits: {rate: [{per_second: 1}, {per_second: 2, peer: \"*\"}]}":     {`bad "limits.rate[1]": a second rate for peer "*" and kind "*"`},
		"channels: {listen: 127.0.0.1:7118}":                                  {`bad "channels.listen": nobody could come there: add keys`},
		"channels: {listen: 0.0.0.0:7118, keys: [{sha256: " + keyHash + "}]}": {`bad "channels.listen": "0.0.0.0:7118": use 127.0.0.1 or [::1]`},
		"channels: {listen: 7118, keys: [{sha256: " + keyHash + "}]}":         {`"channels.listen" must be text`},
		"metrics: {listen: 0.0.0.0:7119}":                                     {`bad "metrics.listen": "0.0.0.0:7119": other machines can reach it`},
		"metrics: {listen: \"[::]:7119\", expose: false}":                     {`bad "metrics.listen": "[::]:7119": other machines can reach it`},
		"metrics: {listen: desk.example:7119, expose: true}":                  {`bad "metrics.listen": "desk.example:7119": write an address, not a name`},
		"metrics: {listen: localhost:7119}":                                   {`bad "metrics.listen": "localhost:7119": write an address, not a name`},
		"metrics: {listen: metrics.sock}":                                     {`bad "metrics.listen": "metrics.sock": use host:port, like`},
		"metrics: {listen: \":99999\"}":                                       {`bad "metrics.listen": ":99999": use a port`},
		"metrics: {listen: \"\"}":                                             {`bad "metrics.listen": "": use host:port, like`},
		"metrics: {listen: 7119}":                                             {`"metrics.listen" must be text, not "7119"`},
		"channels: {keys: [{agent: planner}]}":                                {`bad "channels.keys[0]": no key: add sha256`},
		"channels: {keys: [{sha256: secret, agent: \"\"}]}":                   {`bad "channels.keys[0].sha256": use 64 lower-case hex digits`, `bad "channels.keys[0].agent"`},
		"channels: {open_to: [Laptop]}":                                       {`bad "channels.open_to[0]": name "Laptop"`},
		"channels: {open_to: \"*\"}":                                          {`"channels.open_to" must be a list`},
		"channels: {lenient: yes}":                                            {`"channels.lenient" must be true or false, not "yes"`},
		"policy: {desk: {}}":                                                  {`bad "policy.desk": an empty rule`},
		"policy: {desk: {kinds: [qurey]}}":                                    {`bad "policy.desk.kinds[0]": "qurey": did you mean "query"?`},
		"policy: {desk: {kinds: [\"*\"]}}":                                    {`bad "policy.desk.kinds[0]": "*": use ping, discover,`},
		"policy: {desk: {kinds: [cancel]}}":                                   {`"cancel": it belongs to a delegation`},
		"policy: {desk: {kinds: ping}}":                                       {`"policy.desk.kinds" must be a list, not "ping"`},
		"policy: {desk: {domains: []}}":                                       {`bad "policy.desk.domains": an empty list`},
		"policy: {desk: {domains: [Code, a..b, .a, \"\"]}}":                   {`domains[0]": "Code"`, `domains[1]": "a..b"`, `domains[2]": ".a"`, `domains[3]": ""`},
		"policy:\n  *:\n    kinds: [ping]":                                    {`2: no valid YAML: did not find expected alphabetic or numeric character: "*" and text that begins with * or & must be in quotes`},
		"name: &n desk":                                                       {`1: "name" uses an anchor`},
		"name: *n":                                                            {`1: no valid YAML: unknown anchor`},
		"log: {level: &l info}\nname: *l":                                     {`"log.level" uses an anchor`, `"name" uses an anchor`},
		"? [a]\n: b":                                                          {`1: a key that is no plain text`},
		"<<: {name: desk}":                                                    {`1: unknown key "<<"`},
		"[name]":                                                              {`1: the file must be settings, not a list`},
		"desk":                                                                {`1: the file must be settings, not "desk"`},
		"name: desk\n---\nname: laptop":                                       {`2: a second document begins here`},
		"name: desk\n---\n[":                                                  {`no valid YAML`},
		"reach:\n\tdirect: off":                                               {`2: a tab indents this line: use spaces`},
		"policy:\n  desk:\n  \tkinds: [query]":                                {`3: a tab indents this line: use spaces`},
		"name: \t@x":                                                          {`1: no valid YAML: found character that cannot start any token`},
		"name: desk\n  listen: x":                                             {`2: no valid YAML`},
		"a: [":                                                                {`1: no valid YAML`},
		"name: desk\nlisten: \"\x01\"":                                        {`2: a character that is no text`},
		"name: desk\nlisten: \"\xff\"":                                        {`2: a character that is no text`},
		"\n" + strings.Repeat(" ", 1<<20):                                     {`2: the file is over 1 MiB`},
	} {
		short := text[:min(len(text), 80)]
		c, err := load(t, text)
		if err == nil {
			t.Errorf("%q: no error", short)
			continue
		}
		if c != nil {
			t.Errorf("%q: a configuration beside an error", short)
		}
		list := strings.Split(err.Error(), "\n")
		if len(list) != len(want) {
			t.Errorf("%q: %d errors:\n%v", short, len(list), err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q:\ngot  %v\nwant %s", short, err, w)
			}
		}
		e, ok := errors.AsType[*Error](err)
		if !ok || !strings.HasSuffix(e.File, "config.yaml") || e.Line < 1 || e.Problem == "" {
			t.Errorf("%q: %+v", short, e)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	var text strings.Builder
	for range 100 {
		text.WriteString("lisen: x\n")
	}
	_, err := load(t, text.String())
	list := strings.Split(err.Error(), "\n")
	if len(list) != yamldoc.MaxErrors+1 || !strings.HasSuffix(list[yamldoc.MaxErrors], ": 80 more errors") {
		t.Errorf("%d lines, the last: %s", len(list), list[len(list)-1])
	}
}

func TestLegal(t *testing.T) {
	for host, want := range map[string]string{
		"desk":                                 "desk",
		"Desk.Example":                         "desk",
		"my_desk":                              "my-desk",
		"7desk":                                "host-7desk",
		"deadbeef":                             "host-deadbeef",
		"":                                     "acpd",
		"---":                                  "acpd",
		"...":                                  "acpd",
		"büro":                                 "b-ro",
		strings.Repeat("desk-", 10):            "desk-desk-desk-desk-desk-desk-de",
		"1" + strings.Repeat("23456789-", 100): "host-123456789-23456789-23456789",
	} {
		got := makePetname(host)
		if got != want || identity.CheckName(got) != nil {
			t.Errorf("legal(%q) = %q, want %q (%v)", host, got, want, identity.CheckName(got))
		}
	}
}

func TestReference(t *testing.T) {
	text := RenderReferenceFile()
	var inForce strings.Builder
	for line := range strings.Lines(text) {
		if len(line) > 81 && !strings.Contains(line, "ssh-ed25519 ") || !strings.HasPrefix(line, "#") && line != "\n" {
			t.Errorf("line %q", line)
		}
		inForce.WriteString(strings.TrimPrefix(line, "#"))
	}
	if c, err := load(t, text); err != nil || c.Policy != nil {
		t.Errorf("as it is: %+v, %v", c, err)
	}
	c, err := load(t, inForce.String())
	if err != nil {
		t.Fatalf("with every setting in force: %v\n%s", err, inForce.String())
	}
	flat := strings.Join(strings.Fields(strings.ReplaceAll(text, "#", " ")), " ")
	var walk func(at string, v reflect.Value)
	walk = func(at string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("%s: no example", at)
			return
		}
		if _, isText := reflect.New(v.Type()).Interface().(yamldoc.TextSetter); isText {
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for f, field := range v.Fields() {
				if f.Tag.Get("yaml") == "-" || f.Tag.Get("instead") != "" && field.IsZero() {
					continue
				}
				key := yamldoc.JoinKey(at, f.Tag.Get("yaml"))
				doc := f.Tag.Get("doc")
				if f.Tag.Get("yaml") == "" || !strings.HasSuffix(doc, ".") || !strings.Contains(flat, doc) {
					t.Errorf("%s (%s): documentation %q", key, f.Name, doc)
				}
				walk(key, field)
			}
		case reflect.Map:
			for _, key := range v.MapKeys() {
				walk(yamldoc.JoinKey(at, key.String()), v.MapIndex(key))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(at, v.Index(i))
			}
		}
	}
	walk("", reflect.ValueOf(*c))
}

// The tags of Config cannot be computed from the constants of other packages.
func TestReferenceNamesTheKindsAndBounds(t *testing.T) {
	text := strings.Join(strings.Fields(strings.ReplaceAll(RenderReferenceFile(), "#", " ")), " ")
	list := func(traits kinds.Traits, last string) string {
		return regexp.MustCompile(", ([a-z]+)$").ReplaceAllString(strings.Join(kinds.ListNames(traits), ", "), last+"$1")
	}
	words := func(last string) string {
		return fmt.Sprintf("%s (OACP), %s (OpenIntent) %s %s", bridgeWords[0], bridgeWords[1], last, bridgeWords[2])
	}
	for _, want := range []string{
		"Any of " + list(kinds.Policed, ", ") + ", and the words " + words("and"),
		"or a group of theirs: " + list(kinds.Policed, " and ") + ".",
		"Any of " + list(kinds.Wakes, " and ") + ".",
		list(kinds.Sent, " or ") + "; " + words("or"),
		fmt.Sprintf("a letter first, at most %d.", identity.MaxName),
		fmt.Sprintf("from %d (%d KiB) to %d (%d MiB). Default: %d (%d MiB).", wire.MinMaxMessage, wire.MinMaxMessage>>10,
			wire.MaxMaxMessage, wire.MaxMaxMessage>>20, wire.DefaultMaxMessage, wire.DefaultMaxMessage>>20),
		fmt.Sprintf("as host:port, at most %d.", identity.MaxAddrs),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the reference does not say %q", want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(fullExample))
	f.Add([]byte(RenderReferenceFile()))
	f.Add([]byte(strings.ReplaceAll(RenderReferenceFile(), "\n#", "\n")))
	for _, text := range []string{"name: desk\n---\n- &a [*a]\n", "? {a: b}\n: |\n  x\n", "limits: {rate: [{per_second: 1e9}]}", "a: !!int x", "\t"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseFile("config.yaml", data)
		if err == nil {
			if identity.CheckName(c.Name) != nil || c.MaxMessage < wire.MinMaxMessage || c.MaxMessage > wire.MaxMaxMessage {
				t.Errorf("accepted %+v", c)
			}
			for _, r := range c.Limits.Rate {
				if !(r.PerSecond > 0) || r.Burst < 1 || r.Peer == "" || r.Kind == "" {
					t.Errorf("accepted %+v", r)
				}
			}
			for key, r := range c.Policy {
				if key == "" || r.Kinds == nil && r.Domains == nil {
					t.Errorf("accepted the rule %q: %+v", key, r)
				}
			}
			return
		}
		list := err.(interface{ Unwrap() []error }).Unwrap()
		if c != nil || len(list) == 0 || len(list) > yamldoc.MaxErrors+1 {
			t.Fatalf("%d errors beside %v", len(list), c)
		}
		last := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + strings.Count(string(data), "\u2028") + strings.Count(string(data), "\u2029")
		for _, err := range list[:min(len(list), yamldoc.MaxErrors)] {
			if e := err.(*Error); e.Line < 1 || e.Line > last+1 || e.File == "" || e.Problem == "" || strings.ContainsAny(e.Error(), "\n\r") {
				t.Errorf("%+v", e)
			}
		}
		if !slices.IsSortedFunc(list[:min(len(list), yamldoc.MaxErrors)], func(a, b error) int { return a.(*Error).Line - b.(*Error).Line }) {
			t.Errorf("out of order: %v", err)
		}
	})
}
