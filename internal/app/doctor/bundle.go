package doctor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/statedir"
)

const (
	maxBundleFile = 1 << 20
	maxLogTail    = 256 << 10
	logLines      = "1000"
)

// BundleFile is one file of a bundle.
type BundleFile struct {
	Name    string
	Holds   string // what it holds, for the person who decides
	Content []byte
}

// BundleVersions is what a bundle says of programs.
type BundleVersions struct {
	Acpctl string   `json:"acpctl"`
	Acpd   string   `json:"acpd,omitzero"` // "": none runs
	Go     string   `json:"go"`
	System string   `json:"system"`
	Kernel string   `json:"kernel,omitzero"`
	Peers  []string `json:"peers"` // what peers say that they run; each once
}

// BundleDaemon is what a bundle says of the daemon that runs.
type BundleDaemon struct {
	State      client.DaemonState       `json:"state"`
	UptimeSecs uint64                   `json:"uptime_secs"`
	Process    client.Process           `json:"process"`
	Messages   client.MessageCount      `json:"messages"`
	TasksGiven int                      `json:"tasks_given"`
	TasksTaken int                      `json:"tasks_taken"`
	Agents     int                      `json:"agents"`
	Peers      map[client.PeerState]int `json:"peers"` // how many, by state
	Budget     []client.BudgetRow       `json:"budget"`
}

// BundledLog is the name of the file in a bundle that has the end of the log. Without a log there is none.
const BundledLog = "log.txt"

// CollectBundle returns the files of a bundle, which hold the findings and what else a bug report
// needs. They hold no keys, tokens, messages or bodies of any, and no names, ids or addresses: what
// is the owner's is masked. logFile names the daemon's log; "": that of its systemd unit, if there
// is one. The error is for a log that was named and cannot be read.
func CollectBundle(ctx context.Context, o Options, findings []Finding, logFile string) ([]BundleFile, error) {
	x := &examination{Options: &o}
	x.askDaemon(ctx)
	data, _ := durable.ReadPrivateFile(x.filePath(statedir.ConfigName), maxBundleFile)
	if data == nil {
		data, _ = readTail(x.filePath(statedir.ConfigName), maxBundleFile)
	}
	maskedConfig, words := maskConfig(data)
	var peers []client.Peer
	if x.status != nil {
		peers, _ = x.Daemon.Peers(ctx)
	}
	log, err := x.readLog(ctx, logFile)
	if err != nil {
		return nil, err
	}
	m := newMask(slices.Concat(x.listPrivateWords(ctx, findings, peers), words, listLogWords(log)))
	versions := BundleVersions{Acpctl: o.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Peers: []string{}}
	kernel, _ := o.Machine.readFile("proc/sys/kernel/osrelease")
	versions.Kernel = strings.TrimSpace(string(kernel))
	seen := make(map[string]bool)
	for _, p := range peers {
		if p.Software != "" && !seen[p.Software] {
			seen[p.Software] = true
			versions.Peers = append(versions.Peers, m.text(client.Line(p.Software)))
		}
	}
	findings = slices.Clone(findings)
	for i := range findings {
		f := &findings[i]
		f.Subject, f.What, f.Remedy, f.Fixed = m.text(f.Subject), m.text(f.What), m.text(f.Remedy), m.text(f.Fixed)
	}
	files := []BundleFile{{"findings.json", "what acpctl doctor found, names and addresses masked", indentJSON(findings)}}
	if x.status != nil {
		versions.Acpd = x.status.Version
		files = append(files, BundleFile{"daemon.json", "figures of the daemon: process, memory, counts of messages, budget", indentJSON(x.countForBundle(ctx, peers))})
	}
	files = append(files, BundleFile{"versions.json", "versions of acpctl, acpd, the system, and those that peers say", indentJSON(versions)})
	if len(data) > 0 {
		files = append(files, BundleFile{"config.yaml", "the settings; names, addresses, paths, hashes and comments masked", maskedConfig})
	}
	if log != "" {
		files = append(files, BundleFile{BundledLog, "the end of the daemon's log, names and addresses masked", []byte(m.maskLog(log))})
	}
	for i := range files {
		files[i].Content = files[i].Content[:min(len(files[i].Content), maxBundleFile)]
	}
	return files, nil
}

// listPrivateWords returns every name, id, address and path that may stand in a text of the bundle.
func (x *examination) listPrivateWords(ctx context.Context, findings []Finding, peers []client.Peer) (words []string) {
	words = append(listOwnerWords(), x.Home, x.Setup.Home)
	for _, f := range findings {
		words = append(words, f.private...)
	}
	trusted, blocked, _, _ := identity.InspectTrust(x.Home)
	for _, p := range trusted {
		words = append(append(words, p.Name, p.ID.String(), p.ID.Label()), p.Addrs...)
	}
	for _, b := range blocked {
		words = append(append(words, b.Name, b.ID.String(), b.ID.Label()), b.Addrs...)
	}
	for _, p := range peers {
		words = append(append(words, p.Name, p.Claim, p.ID.String(), p.ID.Label()), p.Addrs...)
	}
	if x.status == nil {
		return words
	}
	words = append(append(words, x.status.Name, x.status.ID.String(), x.status.ID.Label()), x.status.Listen...)
	for _, r := range x.status.Relays {
		words = append(words, r.Name, r.URL, hostOf(r.URL), r.Server)
	}
	agents, _ := x.Daemon.Agents(ctx)
	for _, a := range agents {
		words = append(append(append(words, a.Name), a.Domains...), a.Topics...)
	}
	bindings, _ := x.Daemon.OACPBindings(ctx, "")
	for _, b := range bindings {
		words = append(words, b.Project, b.Agent, b.Peer)
	}
	return words
}

func (x *examination) countForBundle(ctx context.Context, peers []client.Peer) BundleDaemon {
	s := x.status
	d := BundleDaemon{
		State: s.State, UptimeSecs: s.UptimeSecs, Process: s.Process, Messages: s.Messages,
		TasksGiven: s.TasksGiven, TasksTaken: s.TasksTaken, Agents: len(s.Agents), Peers: make(map[client.PeerState]int),
	}
	for _, p := range peers {
		d.Peers[p.State]++
	}
	if b, err := x.Daemon.Budget(ctx); err == nil {
		d.Budget = b.Rows
	}
	return d
}

// readLog returns the end of the daemon's log.
func (x *examination) readLog(ctx context.Context, file string) (string, error) {
	if file != "" {
		text, err := readTail(file, maxLogTail)
		if err != nil {
			return "", fmt.Errorf("doctor: --log: %w", err)
		}
		return string(text), nil
	}
	if x.Machine.OS != "linux" {
		return "", nil
	}
	for _, argv := range [][]string{{"journalctl", "--user", "-u", "acpd.service"}, {"journalctl", "-u", "acpd.service"}} {
		text, err := x.Machine.RunProgram(ctx, append(argv, "-n", logLines, "-o", "cat", "--no-pager", "-q")...)
		if err == nil && strings.TrimSpace(text) != "" {
			return text[max(0, len(text)-maxLogTail):], nil
		}
	}
	return "", nil
}

// readTail returns the last bytes of a regular file. It waits for no named pipe.
func readTail(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file: name one", path)
	}
	if _, err := f.Seek(max(0, info.Size()-most), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}

func indentJSON(v any) []byte {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.WithIndent("  "))
	if err != nil {
		return []byte(fmt.Sprintf("{\"error\": %q}\n", err.Error())) // of our own types: it does not happen
	}
	return append(b, '\n')
}

// WriteBundle writes the files into path, a compressed tar archive that its owner alone may read.
// A file that is there stays: that is an error with [fs.ErrExist]. After an error there is none.
func WriteBundle(path string, files []BundleFile, now time.Time) error {
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		err := archive.WriteHeader(&tar.Header{Name: "acpd-bundle/" + f.Name, Mode: durable.PrivateMode, Size: int64(len(f.Content)), ModTime: now})
		if err == nil {
			_, err = archive.Write(f.Content)
		}
		if err != nil {
			return fmt.Errorf("doctor: bundle: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("doctor: bundle: %w", err)
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, durable.PrivateMode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("doctor: bundle: %w: name a file that is not there", err)
	}
	if err != nil {
		return fmt.Errorf("doctor: bundle: %w: name a file in a folder of yours", err)
	}
	_, err = out.Write(b.Bytes())
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		os.Remove(path)
		return fmt.Errorf("doctor: bundle: %w: free some space, or name another file", err)
	}
	return nil
}
