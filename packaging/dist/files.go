package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file, or a folder, of a release, in memory.
type file struct {
	path  string // with slashes, not rooted; a folder's ends with one
	mode  int64  // permissions
	owner int    // user and group
	text  []byte
}

type files []file

// readFiles reads files of the source. Each pair is a path there and what it is called here.
func (r *release) readFiles(pairs ...[2]string) (all files, err error) {
	for _, p := range pairs {
		text, err := os.ReadFile(filepath.Join(r.source, p[0]))
		if err != nil {
			return nil, fmt.Errorf("files: %w", err)
		}
		all = append(all, file{path: p[1], mode: 0o644, text: text})
	}
	return all, nil
}

// readPrograms reads the programs into a folder.
func (b *build) readPrograms(folder string) (all files, err error) {
	for _, name := range programNames {
		text, err := os.ReadFile(b.programPath(name))
		if err != nil {
			return nil, fmt.Errorf("files: %w", err)
		}
		all = append(all, file{path: folder + name, mode: 0o755, text: text})
	}
	return all, nil
}

// pack returns the files, each below the folder, as a compressed archive. They are sorted, and
// have one time.
func (r *release) pack(folder string, all files) ([]byte, error) {
	all = slices.SortedFunc(slices.Values(all), func(a, b file) int { return cmp.Compare(a.path, b.path) })
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zip)
	for _, f := range all {
		header := tar.Header{
			Name: folder + f.path, Mode: f.mode, Size: int64(len(f.text)), ModTime: r.time,
			Uid: f.owner, Gid: f.owner, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.path, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(&header); err != nil {
			return nil, fmt.Errorf("archive: %s: %w", f.path, err)
		}
		if _, err := archive.Write(f.text); err != nil {
			return nil, fmt.Errorf("archive: %s: %w", f.path, err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return packed.Bytes(), nil
}

// compress returns text as gzip(1) -9n would: without a name and a time.
func compress(text []byte) []byte {
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // the level is valid
	zip.Write(text)
	zip.Close()
	return packed.Bytes()
}

// writeArchive writes what can be unpacked and run anywhere.
func writeArchive(r *release, b *build, more files, out string) error {
	all, err := b.readPrograms("")
	if err != nil {
		return err
	}
	texts, err := r.readFiles([2]string{"LICENSE", "LICENSE"}, [2]string{"README.md", "README.md"}, [2]string{"CHANGELOG.md", "CHANGELOG.md"})
	if err != nil {
		return err
	}
	packed, err := r.pack(strings.TrimSuffix(r.name(b.platform, ""), "/")+"/", slices.Concat(all, texts, more))
	if err != nil {
		return err
	}
	return writeFile(out, r.name(b.platform, ".tar.gz"), packed)
}

// nobody is the user of the container image. No system user has this id.
const nobody = 65532

// writeContainerRoot writes the root directory of the container image.
func writeContainerRoot(r *release, b *build, licences file, out string) error {
	all, err := b.readPrograms("usr/bin/")
	if err != nil {
		return err
	}
	texts, err := r.readFiles([2]string{"LICENSE", "usr/share/doc/acpd/LICENSE"})
	if err != nil {
		return err
	}
	licences.path = "usr/share/doc/acpd/" + licences.path
	all = append(all, texts...)
	all = append(all, licences,
		file{path: "etc/passwd", mode: 0o644, text: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nacpd:x:%d:%d:acpd:/var/lib/acpd:/sbin/nologin\n", nobody, nobody)},
		file{path: "etc/group", mode: 0o644, text: fmt.Appendf(nil, "root:x:0:\nacpd:x:%d:\n", nobody)},
		file{path: "tmp/", mode: 0o1777},
		file{path: "var/lib/acpd/", mode: 0o700, owner: nobody},
	)
	packed, err := r.pack("", all)
	if err != nil {
		return err
	}
	return writeFile(out, "acpd_"+r.version+"_container_"+b.platform.arch+".tar.gz", packed)
}

// writeContainerfile copies the Containerfile, so that out is a context to build it in.
func writeContainerfile(r *release, out string) error {
	text, err := os.ReadFile(filepath.Join(r.source, "packaging/container/Containerfile"))
	if err != nil {
		return fmt.Errorf("container: %w", err)
	}
	text = bytes.ReplaceAll(text, []byte("@VERSION@"), []byte(r.version))
	return writeFile(out, "Containerfile", text)
}

// writeFile writes a file of the release.
func writeFile(out, name string, text []byte) error {
	if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	fmt.Printf("%10d  %s\n", len(text), name)
	return nil
}

const checksums = "SHA256SUMS"

// writeChecksums writes what sha256sum --check reads, for all files in out.
func writeChecksums(out string) error {
	all, err := os.ReadDir(out)
	if err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	var lines []byte
	for _, f := range all {
		sum, err := hashFile(filepath.Join(out, f.Name()))
		if err != nil {
			return err
		}
		lines = fmt.Appendf(lines, "%s  %s\n", sum, f.Name())
	}
	return writeFile(out, checksums, lines)
}

func hashFile(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("checksums: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}

// moveFiles moves all files of a folder into another one, which is made if it is not there.
func moveFiles(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("move: %w", err)
	}
	all, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("move: %w", err)
	}
	for _, f := range all {
		if err := os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return fmt.Errorf("move: %w", err)
		}
	}
	return nil
}

// removeEarlierRelease removes the files that an earlier run has written into out, and no
// others. It returns an error if there are others.
func removeEarlierRelease(out string) error {
	list, err := os.ReadFile(filepath.Join(out, checksums))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		_, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || name != filepath.Base(name) {
			return fmt.Errorf("remove: %s/%s is none of a release: move it away", out, checksums)
		}
		if err := os.Remove(filepath.Join(out, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(out, checksums)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	left, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("remove: %s is in %s and of no release: move it away", left[0].Name(), out)
	}
	return nil
}
