//! Import cycles between files: there are none.
//!
//! File A depends on file B if A names an item that B defines; re-exports are followed. A file may use
//! what its own ancestor modules define: that is containment, not a dependency between files.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    Attribute, Item, ItemMod, ItemUse, UseTree, Visibility,
    visit::{self, Visit},
};

use super::{Source, assert_none, sources};

/// A path of modules and names from the root of a crate, without `crate`.
type Path = Vec<String>;

/// One file: the module it is, and all paths it names.
#[derive(Default)]
struct File {
    module: Path,
    /// Names that `use` brings into the file, and the absolute paths behind them.
    imports: BTreeMap<String, Path>,
    /// The imports that are visible outside.
    exports: BTreeMap<String, Path>,
    /// Modules of which everything is imported.
    globs: Vec<Path>,
    /// Child modules.
    children: BTreeSet<String>,
    /// Paths in the code, as written.
    paths: Vec<Path>,
    /// Inline modules around the item that is visited.
    inline: usize,
}

impl File {
    fn read(source: &Source, root: &str) -> Self {
        let syntax = syn::parse_file(&source.text)
            .unwrap_or_else(|error| panic!("{}: {error}", source.path));
        let mut file = Self {
            module: module_of(&source.path, root),
            ..Self::default()
        };
        for item in &syntax.items {
            if let Item::Mod(ItemMod { ident, .. }) = item {
                file.children.insert(ident.to_string());
            }
        }
        file.visit_file(&syntax);
        file
    }

    /// Makes a path absolute; `None` for paths of other crates and for names of this file.
    fn absolute(&self, path: &[String]) -> Option<Path> {
        let first = path.first()?.as_str();
        if first == "crate" {
            return Some(path[1..].to_vec());
        }
        let ups = path.iter().take_while(|name| *name == "super").count();
        if ups > 0 || first == "self" {
            let skipped = ups.max(1);
            let levels = ups.saturating_sub(self.inline);
            let kept = self.module.len().checked_sub(levels)?;
            return Some([&self.module[..kept], &path[skipped..]].concat());
        }
        if self.children.contains(first) {
            return Some([&self.module[..], path].concat());
        }
        let imported = self.imports.get(first)?;
        Some([&imported[..], &path[1..]].concat())
    }

    fn import(&mut self, tree: &UseTree, before: &mut Path, is_public: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, is_public);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, is_public);
                }
            }
            UseTree::Glob(_) => self.globs.extend(self.absolute(before)),
            UseTree::Name(name) if name.ident == "self" => {
                let last = before.last().cloned().unwrap_or_default();
                self.bind(last, before, is_public);
            }
            UseTree::Name(name) => {
                let path = [before.as_slice(), &[name.ident.to_string()]].concat();
                self.bind(name.ident.to_string(), &path, is_public);
            }
            UseTree::Rename(rename) => {
                let path = [before.as_slice(), &[rename.ident.to_string()]].concat();
                self.bind(rename.rename.to_string(), &path, is_public);
            }
        }
    }

    fn bind(&mut self, name: String, path: &[String], is_public: bool) {
        if let Some(path) = self.absolute(path) {
            if is_public {
                self.exports.insert(name.clone(), path.clone());
            }
            self.imports.insert(name, path);
        }
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        let list = attribute.meta.require_list();
        let tokens = list.map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("test") || is_cfg && tokens.starts_with("test")
    })
}

impl<'a> Visit<'a> for File {
    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if !is_for_tests(&module.attrs) && module.content.is_some() {
            self.inline += 1;
            visit::visit_item_mod(self, module);
            self.inline -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if !is_for_tests(&item.attrs) {
            let is_public = !matches!(item.vis, Visibility::Inherited);
            self.import(&item.tree, &mut Vec::new(), is_public);
        }
    }

    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names = path.segments.iter().map(|name| name.ident.to_string());
        let names: Path = names.collect();
        if names.len() > 1 {
            self.paths.push(names);
        }
        visit::visit_path(self, path);
    }
}

fn module_of(path: &str, root: &str) -> Path {
    let inside = path.strip_prefix(root).expect("below its root");
    let inside = inside.trim_start_matches('/').trim_end_matches(".rs");
    let mut module: Path = inside.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|name| name == "mod") || ["lib", "main"].contains(&inside) {
        module.pop();
    }
    module
}

/// The files of one crate by their modules.
struct Crate {
    files: BTreeMap<Path, File>,
}

impl Crate {
    /// The module that defines what a path names, through re-exports.
    fn definition(&self, path: &[String], depth: usize) -> Option<&Path> {
        if let Some((module, _)) = self.files.get_key_value(path) {
            return Some(module);
        }
        let split = (0..path.len())
            .rev()
            .find(|n| self.files.contains_key(&path[..*n]))?;
        let (module, file) = self.files.get_key_value(&path[..split])?;
        match file.exports.get(&path[split]) {
            Some(target) if depth < 8 && target.as_slice() != path => {
                let target = [&target[..], &path[split + 1..]].concat();
                self.definition(&target, depth + 1)
            }
            _ => Some(module),
        }
    }

    fn dependencies(&self, file: &File) -> BTreeSet<&Path> {
        let used = file.imports.iter().filter(|(name, path)| {
            let reexports = file.exports.get(*name) == Some(*path);
            // A name of a module alone is no use of it; a re-export of a child is the parent's interface.
            let is_interface = reexports && path.starts_with(&file.module);
            !(is_interface || self.files.contains_key(*path))
        });
        let used = used.map(|(_, path)| path.clone());
        let named = file.paths.iter().filter_map(|path| file.absolute(path));
        let all = used.chain(named).chain(file.globs.iter().cloned());
        all.filter_map(|path| self.definition(&path, 0))
            .filter(|module| !file.module.starts_with(module))
            .collect()
    }

    /// Groups of files that depend on each other in a circle.
    fn cycles(&self) -> Vec<String> {
        let graph: BTreeMap<&Path, BTreeSet<&Path>> = self
            .files
            .iter()
            .map(|(module, file)| (module, self.dependencies(file)))
            .collect();
        let reachable = |from: &Path| {
            let mut seen: BTreeSet<&Path> = BTreeSet::new();
            let mut open: Vec<&Path> = graph[from].iter().copied().collect();
            while let Some(next) = open.pop() {
                if seen.insert(next) {
                    open.extend(&graph[next]);
                }
            }
            seen
        };
        let reach: BTreeMap<&Path, BTreeSet<&Path>> = graph
            .keys()
            .map(|module| (*module, reachable(module)))
            .collect();
        let mut found = BTreeSet::new();
        for (module, others) in &reach {
            if others.contains(*module) {
                let circle = others
                    .iter()
                    .filter(|other| reach[**other].contains(*module));
                let names: Vec<String> = circle.map(|other| other.join("::")).collect();
                found.insert(names.join(", "));
            }
        }
        found.into_iter().collect()
    }
}

fn crate_at(root: &str) -> Crate {
    let is_code = |path: &str| {
        !path.contains("/tests/") && !path.ends_with("tests.rs") && path != "src/main.rs"
    };
    let files = sources(&[root])
        .into_iter()
        .filter(|source| is_code(&source.path))
        .map(|source| File::read(&source, root))
        .map(|file| (file.module.clone(), file));
    Crate {
        files: files.collect(),
    }
}

#[test]
fn files_do_not_import_each_other_in_circles() {
    let roots = [
        "src",
        "xtask/src",
        "benches/engine",
        "benches/http",
        "benches/log",
    ];
    let found: Vec<String> = roots
        .into_iter()
        .flat_map(|root| crate_at(root).cycles())
        .collect();
    assert_none("files that depend on each other", &found);
}

#[test]
fn a_circle_is_found_through_a_re_export() {
    let file = |path: &str, text: &str| {
        let source = Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let file = File::read(&source, "src");
        (file.module.clone(), file)
    };
    let files = [
        file("src/lib.rs", "mod a; mod b;"),
        file("src/a/mod.rs", "mod inner; pub use inner::X; pub struct Y;"),
        file(
            "src/a/inner.rs",
            "use super::Y; use crate::b; pub struct X(b::Z, Y);",
        ),
        file("src/b.rs", "use crate::a::X; pub struct Z; fn f(_: X) {}"),
    ];
    let there = Crate {
        files: files.into_iter().collect(),
    };
    assert_eq!(there.cycles(), ["a::inner, b"]);
}
