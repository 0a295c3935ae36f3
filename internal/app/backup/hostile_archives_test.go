package backup

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/statedir"
)

// rawArchive makes an archive of a manifest and of members as they come.
func rawArchive(t testing.TB, manifest any, members ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	put := func(h *tar.Header, text []byte) {
		h.Size = int64(len(text))
		if h.Typeflag != tar.TypeReg {
			h.Size, text = 0, nil
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	put(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg}, text)
	for _, h := range members {
		named := *h
		named.Uname = ""
		put(&named, []byte(h.Uname))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// makeSparse makes the member that has the records an extended header of the member behind it.
func makeSparse(t testing.TB, archive []byte, records string) []byte {
	t.Helper()
	sparse := slices.Clone(archive)
	at := bytes.LastIndex(sparse, []byte(records)) - 512
	head := sparse[at : at+512]
	head[156] = tar.TypeXHeader
	copy(head[148:156], "        ")
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return sparse
}

// Members that are larger on the disk than in the archive are refused.
func TestSparseMembers(t *testing.T) {
	_, id := makeHome(t, stateText(1, "x"), "laptop")
	const size = 1 << 20
	text := append(make([]byte, size-1), 'x')
	sum, small := sha256.Sum256(text), sha256.Sum256([]byte("x"))
	m := &Manifest{Format: Format, Identity: id, Files: []File{{"state.db", size, hex.EncodeToString(sum[:])}, {"trust.yaml", 1, hex.EncodeToString(small[:])}}}
	records := ""
	for _, r := range []string{"GNU.sparse.size=1048576", "GNU.sparse.numblocks=1", "GNU.sparse.map=1048575,1"} {
		records += fmt.Sprintf("%d %s\n", len(r)+4, r)
	}
	head := &tar.Header{Name: "head", Typeflag: tar.TypeReg, Uname: records}
	member := &tar.Header{Name: "state.db", Typeflag: tar.TypeReg, Uname: "x"}
	archive := makeSparse(t, rawArchive(t, m, head, member), records)
	in := tar.NewReader(bytes.NewReader(archive))
	in.Next()
	if h, err := in.Next(); err != nil || h.Size != size || h.Name != "state.db" {
		t.Fatalf("the archive of this test: %+v, %v", h, err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := restore(t, archive, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "where its manifest has state.db") {
		t.Errorf("%v", err)
	}
}

func TestHostileArchives(t *testing.T) {
	home, id := makeHome(t, stateText(1, "x"), "laptop")
	good := makeArchive(t, home, id, false)
	sum := sha256.Sum256([]byte("x"))
	file := func(name string, bytes int64) File { return File{name, bytes, hex.EncodeToString(sum[:])} }
	reg := func(name string) *tar.Header {
		return &tar.Header{Name: name, Typeflag: tar.TypeReg, Uname: "x", Mode: 0o777}
	}
	manifest := func(files ...File) *Manifest {
		return &Manifest{Format: Format, Identity: id, Files: append([]File{file("state.db", 1), file("trust.yaml", 1)}, files...)}
	}
	base := []*tar.Header{reg("state.db"), reg("trust.yaml")}
	with := func(more ...*tar.Header) []*tar.Header { return slices.Concat(base, more) }
	flip := slices.Clone(good)
	flip[bytes.LastIndex(good, []byte("SQLite format 3"))+100] ^= 1
	newer := *manifest()
	newer.State, newer.Program = statedir.StateVersion+1, "9.9.9"
	format := *manifest()
	format.Format = Format + 1
	later := *manifest(file("later.yaml", 1))
	later.Program = "9.9.9"
	nobody := *manifest()
	nobody.Identity = identity.ID{}
	for name, c := range map[string]struct {
		archive []byte
		want    string
	}{
		"nothing":              {nil, "no backup"},
		"no archive":           {bytes.Repeat([]byte("text"), 1000), "no backup"},
		"cut off":              {good[:len(good)/2], "cut off"},
		"cut off at a member":  {good[:1024], "cut off"},
		"damaged":              {flip, "damaged"},
		"a path upwards":       {rawArchive(t, manifest(file("../x", 1)), with(reg("../x"))...), `"../x"`},
		"a path from the root": {rawArchive(t, manifest(file("/etc/x", 1)), with(reg("/etc/x"))...), `"/etc/x"`},
		"a member of later":    {rawArchive(t, &later, with(reg("later.yaml"))...), `restore it with acpctl "9.9.9", which made the backup, or a later one`},
		"the lock":             {rawArchive(t, manifest(file("lock", 1)), with(reg("lock"))...), `"lock"`},
		"a key as it is":       {rawArchive(t, manifest(file("identity.key", 1)), with(reg("identity.key"))...), `"identity.key"`},
		"not listed":           {rawArchive(t, manifest(), with(reg("config.yaml"))...), "more in it"},
		"missing":              {rawArchive(t, manifest(file("config.yaml", 1)), base...), "ends before config.yaml"},
		"another order":        {rawArchive(t, manifest(), reg("trust.yaml"), reg("state.db")), "state.db"},
		"listed twice":         {rawArchive(t, manifest(file("state.db", 1)), with(reg("state.db"))...), "twice"},
		"too large":            {rawArchive(t, manifest(file("config.yaml", 1<<30)), base...), "may have"},
		"larger than the disk": {rawArchive(t, manifest(file("state.db-wal", 1<<40)), base...), "ends before state.db-wal"},
		"less than nothing":    {rawArchive(t, manifest(file("config.yaml", -1)), base...), "-1 bytes"},
		"another size":         {rawArchive(t, manifest(file("config.yaml", 2)), with(reg("config.yaml"))...), "of 2 bytes"},
		"a symbolic link":      {rawArchive(t, manifest(file("config.yaml", 0)), with(&tar.Header{Name: "config.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"})...), "config.yaml"},
		"a hard link":          {rawArchive(t, manifest(file("config.yaml", 0)), with(&tar.Header{Name: "config.yaml", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"})...), "config.yaml"},
		"no database":          {rawArchive(t, manifest(), base...), "no SQLite database"},
		"no state":             {rawArchive(t, &Manifest{Format: Format, Identity: id}), "state.db is not in it"},
		"of nobody":            {rawArchive(t, &nobody, base...), "no identity"},
		"a newer format":       {rawArchive(t, &format, base...), "newer version"},
		"a newer state":        {rawArchive(t, &newer, base...), "9.9.9"},
		"a manifest of text":   {rawArchive(t, "text", base...), "manifest is damaged"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := restore(t, c.archive, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); left != nil {
			t.Errorf("%s: it leaves %v", name, left)
		}
	}
}

// FuzzPrepare: no archive writes beside its folder, makes a directory that a daemon
// would take, or hangs.
func FuzzPrepare(f *testing.F) {
	home, id := makeHome(f, stateText(1, "x"), "laptop")
	good := makeArchive(f, home, id, false)
	f.Add(good)
	f.Add(good[:len(good)-1024])
	f.Add(makeArchive(f, home, id, true))
	f.Fuzz(func(t *testing.T, archive []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "new")
		r, err := Prepare(t.Context(), bytes.NewReader(archive), Options{Dir: dir})
		if err == nil {
			r.Close()
		}
		if left, _ := os.ReadDir(parent); len(left) > 0 {
			t.Errorf("it leaves %v", left)
		}
	})
}
