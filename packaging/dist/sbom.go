package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// bom is what is in the programs of one platform, in the form of CycloneDX 1.6
// (https://cyclonedx.org/docs/1.6/json/).
type bom struct {
	Schema       string          `json:"$schema"`
	Format       string          `json:"bomFormat"`
	SpecVersion  string          `json:"specVersion"`
	Serial       string          `json:"serialNumber"`
	Version      int             `json:"version"`
	Metadata     bomMetadata     `json:"metadata"`
	Components   []bomComponent  `json:"components"`
	Dependencies []bomDependency `json:"dependencies"`
}

type bomMetadata struct {
	Timestamp time.Time    `json:"timestamp"`
	Component bomComponent `json:"component"`
}

type bomComponent struct {
	Type       string        `json:"type"`
	Ref        string        `json:"bom-ref"`
	Name       string        `json:"name"`
	Version    string        `json:"version"`
	Licences   []bomLicence  `json:"licenses,omitempty"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	PURL       string        `json:"purl,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
}

type bomLicence struct {
	Licence struct {
		ID string `json:"id"` // of SPDX
	} `json:"license"`
}

type bomHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type bomProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type bomDependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// writeSBOM writes what the programs of a platform contain, by what the go command has written
// into them.
func writeSBOM(r *release, b *build, out string) error {
	list, err := listContents(r, b)
	if err != nil {
		return err
	}
	text, err := json.Marshal(list, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("SBOM: %w", err)
	}
	return writeFile(out, r.name(b.platform, ".cdx.json"), append(text, '\n'))
}

func listContents(r *release, b *build) (*bom, error) {
	whole := bomComponent{Type: "application", Ref: "release", Name: "acpd", Version: r.version, PURL: makePURL("generic", "acpd", r.version)}
	whole.Licences = make([]bomLicence, 1)
	whole.Licences[0].Licence.ID = "Apache-2.0"
	list := &bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: bomMetadata{Timestamp: r.time, Component: whole},
	}
	all := bomDependency{Ref: whole.Ref}
	listed := make(map[string]bool)
	serial := sha256.New()
	var programs, libraries []bomComponent
	var needs []bomDependency
	for _, name := range programNames {
		sum, err := hashFile(b.programPath(name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(serial, b.platform, name, sum)
		info := b.modules[name]
		program := bomComponent{Type: "application", Ref: name, Name: name, Version: r.version, Hashes: []bomHash{{"SHA-256", sum}}}
		for _, s := range info.Settings { // of the build
			program.Properties = append(program.Properties, bomProperty{"go:build:" + s.Key, s.Value})
		}
		programs = append(programs, program)
		all.DependsOn = append(all.DependsOn, name)
		need := bomDependency{Ref: name}
		standard := library{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, l := range append([]library{standard}, listLibraries(info)...) {
			c := bomComponent{Type: "library", Name: l.path, Version: l.version, PURL: makePURL("golang", l.path, l.version)}
			c.Ref = c.PURL
			if l.sum != "" {
				c.Properties = []bomProperty{{"go:sum", l.sum}}
			}
			need.DependsOn = append(need.DependsOn, c.Ref)
			if !listed[c.Ref] {
				listed[c.Ref] = true
				libraries = append(libraries, c)
			}
		}
		needs = append(needs, need)
	}
	list.Components = append(programs, libraries...)
	list.Dependencies = append([]bomDependency{all}, needs...)
	for _, l := range libraries {
		list.Dependencies = append(list.Dependencies, bomDependency{Ref: l.Ref})
	}
	list.Serial = formatUUID(serial.Sum(nil))
	return list, nil
}

// makePURL returns a package URL (https://github.com/package-url/purl-spec).
func makePURL(kind, path, version string) string {
	return "pkg:" + kind + "/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// formatUUID returns a UUID of version 8 (RFC 9562, section 5.8) of the first bytes of a sum.
func formatUUID(sum []byte) string {
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
